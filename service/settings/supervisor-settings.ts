/** Settings of the supervisor process. */
import { z } from 'zod';
import { KIB, limits, MIB } from '../../sdk/contract/limits.ts';
import { commaList, HIGHEST_PORT, oneOf, optionalText, sharedSettings, wholeNumber } from './settings.ts';

/** A host name with a port. */
const PRIVATE_TARGET = /^[a-z0-9.-]+:([1-9]\d{0,4})$/;
const privateTargets = (doc: string) =>
  commaList(
    'host:port',
    (target) => Number(PRIVATE_TARGET.exec(target)?.[1] ?? HIGHEST_PORT + 1) <= HIGHEST_PORT,
    doc,
    (target) => target.toLowerCase(),
  );
/** `0.0.0.0`, `::` and their other forms. */
const UNSPECIFIED_ADDRESS = /^[[\]0:.]+$/;
/** Enough for a delivery that is tried for weeks. */
const DELIVERY_WAITS_MAX = 20;

export const supervisorSettings = {
  ...sharedSettings,
  SANDBOX: oneOf(
    ['auto', 'require', 'off'],
    'auto',
    "The operating system's wall (bubblewrap). auto: where it cannot be built, only operators' own plugins run, as an unprivileged user; require: where it cannot be built, the supervisor does not start; off disables it, for debugging only.",
  ),
  SANDBOX_OFF_CONFIRMED: oneOf(
    ['no', 'yes'],
    'no',
    'yes confirms SANDBOX=off, which also requires that no plugin of another account is installed.',
  ),
  INSPECT: oneOf(
    ['off', 'on'],
    'off',
    "on: authors may debug their own drafts (bulkhead dev --inspect). The inspector bypasses the locked realm of that process, and only the operating system's wall contains it, so it needs bubblewrap.",
  ),
  FRAME_BYTES: wholeNumber(
    64 * KIB,
    limits.frameBytes,
    limits.frameBytes,
    'Maximum size of a message of a child.',
    'bytes',
  ),
  FRAMES_PER_SECOND: wholeNumber(
    100,
    1_000_000,
    limits.framesPerSecond,
    'Messages read from one child. A child that writes more waits.',
    'a second',
  ),
  OUTPUT_BYTES_PER_SECOND: wholeNumber(
    16 * KIB,
    1024 * MIB,
    limits.outputBytesPerSecond,
    'Bytes of log lines and host calls of one installation. A host call counts as a sixteenth of its size, the body of a webhook that the host verifies as a 256th, but at least 640. An installation that writes more waits.',
    'a second',
  ),
  CALLS_IN_FLIGHT: wholeNumber(1, 1_000, limits.callsInFlight, 'Concurrent calls of one child.'),
  CALLS_WAITING: wholeNumber(0, 10_000, limits.callsWaiting, 'Calls that may wait for one child.'),
  HOST_CALLS_PER_MINUTE: wholeNumber(1, 10_000_000, limits.hostCallsPerMinute, 'Host calls of one child.', 'a minute'),
  LOG_LINES_PER_MINUTE: wholeNumber(
    1,
    10_000_000,
    limits.logLinesPerMinute,
    'Log lines of one installation.',
    'a minute',
  ),
  LOG_MESSAGE_BYTES: wholeNumber(
    256,
    MIB,
    limits.logMessageBytes,
    'Maximum length of a log message. Longer ones are truncated.',
    'bytes',
  ),
  LOG_DATA_BYTES: wholeNumber(
    256,
    MIB,
    limits.logDataBytes,
    'Maximum size of the data of a log line. Larger data is truncated.',
    'bytes',
  ),
  SESSION_READS_PER_MINUTE: wholeNumber(1, 10_000_000, 6_000, 'Reads of the session API by one account.', 'a minute'),
  SESSION_CALLS_PER_MINUTE: wholeNumber(
    1,
    10_000_000,
    30_000,
    'Hooks, tool calls and other writes of the session API by one account.',
    'a minute',
  ),
  TOOL_RESULT_BYTES: wholeNumber(
    KIB,
    16 * MIB,
    limits.toolResultBytes,
    'Maximum size of the result of a tool.',
    'bytes',
  ),
  PEER_HOST: z
    .string()
    .min(1)
    .refine(
      (host) => !UNSPECIFIED_ADDRESS.test(host),
      'must be an address at which the others reach this machine, because they connect to it; 0.0.0.0 and :: are none',
    )
    .prefault('127.0.0.1')
    .describe(
      'Address on which the supervisor listens for the other supervisors and the APIs of the same database, which connect to it. With more than one machine: its address in the private network. Not 0.0.0.0 or ::.',
    ),
  PEER_PORT: wholeNumber(0, HIGHEST_PORT, 0, 'Port of PEER_HOST for other supervisors and for APIs. 0: any free port.'),
  MODELS_FILE: optionalText(
    'JSON file of the model endpoints that plugins may call (docs/models.md). Empty: plugins can call the models of other plugins only.',
  ),
  MODEL_TOKENS_PER_DAY: wholeNumber(
    0,
    1_000_000_000_000,
    0,
    'Input and output tokens of the endpoints in MODELS_FILE that one plugin may use per day (UTC) in one account, also after it was uninstalled and installed again. 0: no limit.',
    'a day',
  ),
  CHILDREN: wholeNumber(
    0,
    10_000,
    0,
    'Concurrent plugin processes. When all are in use, the least recently used idle one is stopped. 0: one for each 64 MiB of half the memory, from 20 to 1,000.',
  ),
  IDLE_STOP_SECONDS: wholeNumber(
    1,
    86_400,
    600,
    'Time without calls after which a plugin process is stopped.',
    'seconds',
  ),
  DELIVERY_WAITS: z
    .string()
    .transform((list) => list.split(',').map((wait) => wait.trim()))
    .refine(
      (waits) => waits.length <= DELIVERY_WAITS_MAX && waits.every((wait) => /^[1-9]\d{0,5}$/.test(wait)),
      `must be 1 to ${DELIVERY_WAITS_MAX} whole numbers from 1 to 999999, separated by commas`,
    )
    .transform((waits): readonly number[] => waits.map(Number))
    .prefault(limits.deliveryWaits.join())
    .meta({
      description:
        'Waits after the failed attempts at a webhook request or reply, each ± 20 %. The failure after the last wait makes it a dead letter. If you set fewer waits, a pending delivery that has had more failures gets one more attempt.',
      values: 'whole numbers, separated by commas',
      unit: 'seconds',
    }),
  DELIVERY_DAYS: wholeNumber(
    1,
    3_650,
    limits.deliveryDays,
    'Retention of finished webhook requests and replies, with their bodies.',
    'days',
  ),
  METRICS_DAYS: wholeNumber(
    1,
    365,
    limits.metricsDays,
    'Retention of the metrics of installations (GET /installations/{id}/metrics).',
    'days',
  ),
  METRICS_SLUGS: wholeNumber(
    1,
    10_000,
    limits.metricSlugs,
    "Plugins with their own label in the supervisor's /metrics: the first ones that are called, of one account at most as many as are left for the other accounts. All others share the label other.",
  ),
  SSH_HOSTS_FILE: optionalText(
    'JSON file of SSH hosts for accounts, as docs/security-model.md describes, beside those that accounts add themselves. Empty: none.',
  ),
  SSH_ALLOW_PRIVATE: privateTargets(
    'SSH hosts of accounts that may have private addresses: host:port, separated by commas. Every account may then add them, and needs a login there. Empty: none.',
  ),
  HTTP_ALLOW_PRIVATE: privateTargets(
    'Targets of host.http that may have private addresses: host:port, separated by commas. Plugins that were granted the host reach them inside your network. Empty: none.',
  ),
  WORKSPACE_FILES: wholeNumber(
    100,
    1_000_000,
    limits.workspaceFiles,
    'Files and directories in the workspace of one account.',
  ),
  MEDIA_FILES: wholeNumber(1, 1_000_000, limits.mediaFiles, 'Media files of one account.'),
  HEAP_MEGABYTES: wholeNumber(32, 8_192, limits.heapMegabytes, 'JavaScript heap of one child.', 'megabytes'),
  RESIDENT_MEGABYTES: wholeNumber(64, 16_384, limits.residentMegabytes, 'Resident memory of one child.', 'megabytes'),
  ACCOUNT_MEGABYTES: wholeNumber(
    0,
    16_777_216,
    0,
    'Resident memory of all plugin processes of one account. 0: a third of the memory. Without a control group it is checked once a second.',
    'megabytes',
  ),
  OPEN_FILES: wholeNumber(40, 4_096, limits.openFiles, 'Open files of one child. Node itself needs about 20.'),
  THREADS: wholeNumber(12, 1_024, limits.threads, 'Threads of one child. Needs a control group.'),
  CPU_WEIGHT: wholeNumber(
    1,
    10_000,
    limits.cpuWeight,
    'Share of the processor of one child while processes compete for it; an ordinary process has 100. Needs a control group.',
  ),
} as const;
