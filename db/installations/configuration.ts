/** Validates settings and secrets against a version's manifest, and saves settings. */
import type { ClientBase } from 'pg';
import { Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';
import { getOwn } from '../../sdk/contract/get-own.ts';
import {
  FIELDS_MAX,
  listMissingFields,
  type Manifest,
  SECRET_MAX_CHARS,
  SETTING_MAX_CHARS,
} from '../../sdk/contract/manifest.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { deleteOtherSecrets, listSecretNames } from '../files/secrets.ts';
import type { Queues } from '../jobs/queues.ts';
import { listValues, type Queryable } from '../postgres/rows.ts';
import type { InstallationStatus } from './installation-state.ts';
import { changeInstallation, type Installation } from './installations.ts';
import { beginPendingUpdate, queueUpdate } from './updates.ts';

/** Null resets a setting to its default, or deletes a secret. */
export interface ConfigurationInput {
  readonly settings?: Readonly<Record<string, string | null>> | undefined;
  readonly secrets?: Readonly<Record<string, string | null>> | undefined;
}
/** The stored values of an installation, for any version. */
interface Stored {
  readonly settings: Readonly<Record<string, string>>;
  readonly secretNames: readonly string[];
}

/**
 * Validates changes of settings and secrets. Stored values can always be deleted, even if the version that declared
 * them is gone.
 *
 * @throws Problem `bad_request` that names every invalid field, without the values of secrets
 */
export function checkConfiguration(manifest: Manifest, stored: Stored, input: ConfigurationInput): void {
  const faults: ProblemLocation[] = [];
  for (const [name, value] of Object.entries(input.settings ?? {})) {
    if (value === null && Object.hasOwn(stored.settings, name)) continue;
    const message = validateSetting(manifest, name, value);
    if (message) faults.push({ field: `settings.${name}`, message });
  }
  for (const [name, value] of Object.entries(input.secrets ?? {})) {
    if (value === null && stored.secretNames.includes(name)) continue;
    const message = validateSecret(manifest, name, value);
    if (message) faults.push({ field: `secrets.${name}`, message });
  }
  const [first] = faults;
  if (first) throw new Problem('bad_request', `${first.field}: ${first.message}`, { errors: faults });
}

function mergeSettings(stored: Stored['settings'], given: ConfigurationInput['settings'] = {}): Record<string, string> {
  const merged = Object.entries({ ...stored, ...given });
  return Object.fromEntries(merged.filter((entry): entry is [string, string] => entry[1] !== null));
}

/**
 * Settings, and as many secrets, that an installation may have before those are deleted that `listDeclaredNames` does not list: as
 * many as its six versions can declare. Below that, the values of all versions are kept, because a yank may move the installation to
 * an old version, and users cannot read a secret back to give it again. An author can publish any number of names.
 */
export const STORED_MAX = 6 * FIELDS_MAX;

/**
 * The settings or secrets that are declared by a version which the installation runs, is asked about, moves to, has pinned, may
 * return to or may try again.
 */
const listDeclaredNames = (tx: Queryable, installationId: string, fields: 'settings' | 'secrets'): Promise<string[]> =>
  listValues(
    tx,
    `SELECT DISTINCT jsonb_object_keys(v.manifest -> $2) FROM installations i JOIN versions v
         ON v.id IN (i.current_version_id, i.target_version_id, i.pending_version_id, i.pinned_version_id,
                     i.previous_version_id, i.failed_version_id)
      WHERE i.id = $1`,
    [installationId, fields],
  );

async function limitSettings(
  tx: Queryable,
  installationId: string,
  settings: Stored['settings'],
): Promise<Stored['settings']> {
  const entries = Object.entries(settings);
  if (entries.length <= STORED_MAX) return settings;
  const declared = new Set(await listDeclaredNames(tx, installationId, 'settings'));
  return Object.fromEntries(entries.filter(([name]) => declared.has(name)));
}

/** @returns the names of those that are left */
async function limitSecrets(tx: Queryable, installationId: string): Promise<string[]> {
  const names = await listSecretNames(tx, installationId);
  if (names.length <= STORED_MAX) return names;
  await deleteOtherSecrets(tx, installationId, await listDeclaredNames(tx, installationId, 'secrets'));
  return listSecretNames(tx, installationId);
}

function validateSetting(manifest: Manifest, name: string, value: string | null): string | null {
  const row = getOwn(manifest.settings, name);
  if (!row) return `is not known${describeNames(Object.keys(manifest.settings))}`;
  if (value === null) return null;
  if (value.length > SETTING_MAX_CHARS) return `must be at most ${SETTING_MAX_CHARS} characters`;
  if (row.enum && !row.enum.includes(value)) return `must be one of ${row.enum.join(', ')}`;
  return null;
}

function validateSecret(manifest: Manifest, name: string, value: string | null): string | null {
  if (!Object.hasOwn(manifest.secrets, name)) return `is not known${describeNames(Object.keys(manifest.secrets))}`;
  if (value === '') return 'must not be empty; send null to delete it';
  if (value !== null && value.length > SECRET_MAX_CHARS) return `must be at most ${SECRET_MAX_CHARS} characters`;
  return null;
}

const describeNames = (names: readonly string[]): string =>
  names.length === 0 ? '; the plugin has none' : `; known are ${names.join(', ')}`;

/** Lists the missing settings and secrets by the labels that forms show, and the names that the command line and the API take. */
export function labelMissingConfiguration(
  manifest: Manifest,
  settings: Stored['settings'],
  secretNames: Stored['secretNames'],
): string {
  return listMissingFields(manifest, settings, secretNames)
    .map(([name, { label = name }]) => (label === name ? name : `${label} (${name})`))
    .join(', ');
}

/** The fields that can be configured: those of the current version, and those of the version that an update moves to. */
export function mergeManifests(current: Manifest, target: Manifest | null): Manifest {
  if (!target) return current;
  return {
    ...current,
    settings: { ...current.settings, ...target.settings },
    secrets: { ...current.secrets, ...target.secrets },
  };
}

/**
 * Returns the status after a change of configuration. A pause remains; a failed installation becomes ready,
 * because the cause may be gone.
 */
export function resolveStatus(
  before: InstallationStatus,
  manifest: Manifest,
  { settings, secretNames }: Stored,
): { status: InstallationStatus; statusReason: string | null } {
  if (before === 'paused' || before === 'uninstalling') return { status: before, statusReason: null };
  const missing = labelMissingConfiguration(manifest, settings, secretNames);
  if (missing === '') return { status: 'ready', statusReason: null };
  return { status: 'needs_configuration', statusReason: `Set ${missing} before it can run.` };
}

/**
 * Saves settings of an installation whose row is locked and whose secrets are saved. It may run once it lacks nothing, and an
 * update that waited for its configuration continues, or a pending one begins. Deletes values of other versions beyond `STORED_MAX`.
 *
 * @throws Problem `quota_exceeded`
 */
export async function saveSettings(
  tx: ClientBase,
  queues: Queues,
  installation: Installation,
  given: ConfigurationInput['settings'],
): Promise<void> {
  const { id, currentManifest, status, targetVersionId } = installation;
  if (!currentManifest) throw new Error(`installation ${id} has no version`);
  const settings = await limitSettings(tx, id, mergeSettings(installation.settings, given));
  const secretNames = await limitSecrets(tx, id);
  const changed = resolveStatus(status, currentManifest, { settings, secretNames });
  await changeInstallation(tx, id, { settings, ...changed }).catch(throwQuotaProblem);
  const isReplaced = await beginPendingUpdate(tx, queues, id);
  if (targetVersionId !== null && !isReplaced) await queueUpdate(tx, queues, installation);
}
