/** The representation of an installation, with the names of its secrets only. */

import { z } from 'zod';
import { mergeManifests } from '../../db/installations/configuration.ts';
import { diffCapabilities, findNewlyMissing, listHeldCapabilities } from '../../db/installations/consent-rule.ts';
import { runtimeStates } from '../../db/installations/installation-runtimes.ts';
import {
  describeInstallation,
  installationActions,
  installationStates,
  installationStatuses,
  pickNotice,
} from '../../db/installations/installation-state.ts';
import type { Installation } from '../../db/installations/installations.ts';
import { anyJson, timestamp } from '../../service/http/schemas.ts';
import { channelResource, showChannel } from '../channels/channel-resource.ts';
import { configurationFields, reachRow, showFields, showReach } from '../plugins/manifest-resource.ts';
import { deprecationMessage } from '../plugins/plugin-resource.ts';
import { versionPolicy } from './installation-input.ts';
import { describeUpdateWait } from './update-wait.ts';

/** Selects the fields of a row that its user sees. */
export const installationResource = z
  .object({
    id: z.string(),
    pluginId: z.string(),
    slug: z.string(),
    displayName: z.string(),
    versionPolicy,
    pinnedVersionId: z.string().nullable(),
    currentVersionId: z.string().nullable(),
    currentSemVer: z.string().nullable(),
    grantedCapabilities: z.array(z.string()),
    pendingUpdate: z
      .strictObject({
        versionId: z.string(),
        semVer: z.string().nullable(),
        added: z.array(z.string()),
        removed: z.array(z.string()),
        narrowed: z
          .array(z.string())
          .describe('What it keeps of removed access, such as `host.workspace:read` of `host.workspace`.'),
        missing: z.array(z.string()).describe('Settings and secrets that it needs and the running version does not.'),
      })
      .nullable(),
    updateUnderWay: z
      .strictObject({
        versionId: z.string(),
        semVer: z.string().nullable().describe('Null: the draft.'),
        since: timestamp,
        waitsFor: z
          .string()
          .nullable()
          .describe('The action of the user without which it cannot start. Null: it is starting.'),
      })
      .nullable()
      .describe('The version becomes current when it has started with its grants and answered.'),
    failedUpdate: z
      .strictObject({
        versionId: z.string(),
        semVer: z.string().nullable().describe('Null: the draft.'),
        reason: z.string(),
        at: timestamp,
        rolledBack: z.boolean().describe('Whether the version had become current before it failed.'),
      })
      .nullable()
      .describe(
        'The last update, if it failed and its version was not yanked since. `POST /installations/{id}/retry-update` tries it again.',
      ),
    settings: z.record(z.string(), z.string()),
    secretNames: z.array(z.string()),
    configuration: configurationFields.describe(
      'Settings and secrets of the running version, and of the one that an update under way moves to.',
    ),
    reach: z.array(reachRow).describe('The meaning of the granted and requested capabilities.'),
    status: z.enum(installationStatuses),
    statusReason: z.string().nullable(),
    condition: z
      .strictObject({
        state: z.enum(installationStates).describe('The current state, derived from all facts about the installation.'),
        cause: z.string().nullable().describe('The reason, in one sentence.'),
        nextStep: z.string().nullable().describe('The next step of the user, in one sentence.'),
        action: z
          .enum(installationActions)
          .nullable()
          .describe(
            'The operation that does it: `configure`, `resume` or `restart` of the installation, or a new attempt at the update.',
          ),
      })
      .describe('The state, cause and next step that the console and the command lines show.'),
    account: z.string().describe('Name of the account that installed it.'),
    own: z.boolean().describe('Whether the caller installed it. Operators read others’ and cannot change them.'),
    runtime: z.strictObject({
      state: z.enum(runtimeStates),
      restarts: z.number(),
      lastExit: anyJson.nullable(),
      startedAt: timestamp.nullable(),
      rssBytes: z.number().nullable(),
      inspected: z.boolean().describe('A debugger is attached, so deadlines may be suspended.'),
    }),
    channels: z.array(channelResource),
    hookOrder: z.number(),
    required: z
      .boolean()
      .describe('Whether an operation stops when one of the plugin’s hooks did not run, failed or timed out.'),
    deprecationMessage,
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Installation', description: 'One plugin installed by one account. Secrets are names only.' });

/**
 * @param webhookUrl the base address of webhooks, without a slash at the end
 * @param own whether the caller installed it
 */
export function showInstallation(
  row: Installation,
  webhookUrl: string,
  own: boolean,
): z.output<typeof installationResource> {
  const pendingUpdate = showPending(row);
  const failedUpdate = showFailedUpdate(row);
  const held = listHeldCapabilities(row);
  const facts = { ...row, failedUpdate, updateWait: describeUpdateWait(row) };
  return {
    ...row,
    grantedCapabilities: held,
    pendingUpdate,
    secretNames: [...row.secretNames],
    updateUnderWay: showUpdate(row),
    failedUpdate,
    configuration: showFields(row.currentManifest && mergeManifests(row.currentManifest, row.targetManifest)),
    reach: showReach(new Set([...held, ...(pendingUpdate?.added ?? []), ...(pendingUpdate?.narrowed ?? [])])),
    statusReason: pickNotice(facts),
    condition: describeInstallation(facts),
    account: row.accountName,
    own,
    runtime: {
      state: row.runtimeState ?? 'stopped',
      restarts: row.restarts ?? 0,
      lastExit: row.lastExit ?? null,
      startedAt: row.startedAt,
      rssBytes: row.rssBytes,
      inspected: row.inspected ?? false,
    },
    channels: row.channels.map((channel) => showChannel(channel, webhookUrl)),
  };
}

function showPending(row: Installation) {
  if (row.pendingVersionId === null) return null;
  const diff = diffCapabilities(row, row.pendingCapabilities ?? []);
  const missing = row.pendingManifest ? findNewlyMissing(row, row.pendingManifest) : [];
  return { versionId: row.pendingVersionId, semVer: row.pendingSemVer, ...diff, missing };
}

function showUpdate(row: Installation) {
  const { targetVersionId: versionId, targetSemVer: semVer, targetSince: since } = row;
  return versionId === null || since === null ? null : { versionId, semVer, since, waitsFor: describeUpdateWait(row) };
}

/** Null also for a version that was yanked since: nothing can be done about it, because it cannot be tried again. */
function showFailedUpdate(row: Installation) {
  if (row.failedStatus === 'yanked') return null;
  const { failedVersionId: versionId, failedSemVer: semVer, failedReason: reason, failedAt: at, rolledBack } = row;
  return versionId === null || reason === null || at === null ? null : { versionId, semVer, reason, at, rolledBack };
}
