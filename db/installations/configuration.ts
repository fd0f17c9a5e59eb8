/** Validates settings and secrets against a version's manifest, and saves settings. */
import type { ClientBase } from 'pg';
import { Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';
import {
  findMissingConfiguration,
  type Manifest,
  SECRET_MAX_CHARS,
  SETTING_MAX_CHARS,
} from '../../sdk/contract/manifest.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { deleteOtherSecrets, listSecretNames } from '../files/secrets.ts';
import type { Queues } from '../jobs/queues.ts';
import { findRow, type Queryable } from '../postgres/rows.ts';
import type { InstallationStatus } from './installation-state.ts';
import { changeInstallation, type Installation } from './installations.ts';
import { queueUpdate } from './updates.ts';

/** Null resets a setting to its default, or deletes a secret. */
export interface ConfigurationInput {
  readonly settings?: Readonly<Record<string, string | null>> | undefined;
  readonly secrets?: Readonly<Record<string, string | null>> | undefined;
}
/** The stored values of an installation, for all versions of `listDeclaredNames`. */
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

/** @param declared names that are kept */
function mergeSettings(
  stored: Stored['settings'],
  given: ConfigurationInput['settings'] = {},
  declared: ReadonlySet<string>,
): Record<string, string> {
  const merged = Object.entries({ ...stored, ...given });
  return Object.fromEntries(
    merged.filter((entry): entry is [string, string] => entry[1] !== null && declared.has(entry[0])),
  );
}

interface DeclaredNames {
  readonly settings: readonly string[];
  readonly secrets: readonly string[];
}

const declaredSql = (fields: keyof DeclaredNames): string =>
  `ARRAY(SELECT DISTINCT jsonb_object_keys(v.manifest -> '${fields}') FROM versions v
     WHERE v.id IN (i.current_version_id, i.target_version_id, i.pending_version_id, i.pinned_version_id,
                    i.previous_version_id, i.failed_version_id))`;

/**
 * The names that a version declares which the installation runs, is asked about, may return to or may try again. Each version
 * declares a limited number, so the values of other versions are deleted: an author can publish any number of names.
 */
async function listDeclaredNames(tx: Queryable, installationId: string): Promise<DeclaredNames> {
  const found = await findRow<DeclaredNames>(
    tx,
    `SELECT ${declaredSql('settings')} AS settings, ${declaredSql('secrets')} AS secrets FROM installations i WHERE i.id = $1`,
    [installationId],
  );
  return found ?? { settings: [], secrets: [] };
}

function validateSetting(manifest: Manifest, name: string, value: string | null): string | null {
  const row = Object.hasOwn(manifest.settings, name) ? manifest.settings[name] : undefined;
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
  const missing = findMissingConfiguration(manifest, settings, secretNames);
  return missing
    .map((name) => {
      const label = (manifest.settings[name] ?? manifest.secrets[name])?.label ?? name;
      return label === name ? name : `${label} (${name})`;
    })
    .join(', ');
}

/** Names of required settings and secrets that a version lacks, and the current version does not. */
export function findNewlyMissing(
  { currentManifest, settings, secretNames }: Stored & { readonly currentManifest: Manifest | null },
  manifest: Manifest,
): string[] {
  const known = currentManifest ? findMissingConfiguration(currentManifest, settings, secretNames) : [];
  return findMissingConfiguration(manifest, settings, secretNames).filter((name) => !known.includes(name));
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
 * update that waited for its configuration continues. Deletes the values that no version of `listDeclaredNames` declares.
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
  const declared = await listDeclaredNames(tx, id);
  const settings = mergeSettings(installation.settings, given, new Set(declared.settings));
  await deleteOtherSecrets(tx, id, declared.secrets);
  const secretNames = await listSecretNames(tx, id);
  const changed = resolveStatus(status, currentManifest, { settings, secretNames });
  await changeInstallation(tx, id, { settings, ...changed }).catch(throwQuotaProblem);
  if (targetVersionId !== null) await queueUpdate(tx, queues, installation);
}
