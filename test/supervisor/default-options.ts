/** Options of a supervisor that a test does not choose: the defaults of the settings, on a free port. */
import { limits } from '../../sdk/contract/limits.ts';
import type { SupervisorOptions } from '../../supervisor/supervisor.ts';

export const defaultOptions = {
  idleStopMs: 60_000,
  peer: { host: '127.0.0.1', port: 0 },
  inspect: false,
  models: [],
  modelTokensPerDay: 0,
  sshTargets: [],
  childBounds: limits,
  hostCallsPerMinute: limits.hostCallsPerMinute,
  storageBytes: limits.storageBytes,
  toolResultBytes: limits.toolResultBytes,
  deliveryDays: limits.deliveryDays,
  deliveryWaits: limits.deliveryWaits,
  metricsDays: limits.metricsDays,
  metricSlugs: limits.metricSlugs,
  workspaceQuota: { bytes: limits.workspaceBytes, files: limits.workspaceFiles },
  mediaQuota: { bytes: limits.mediaBytes, files: limits.mediaFiles },
  logCaps: {
    linesPerMinute: limits.logLinesPerMinute,
    messageBytes: limits.logMessageBytes,
    dataBytes: limits.logDataBytes,
  },
} satisfies Partial<SupervisorOptions>;
