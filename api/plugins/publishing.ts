/** Publishes versions. The order keeps failures clean: build, store the files durably, then one transaction. */
import type { ClientBase } from 'pg';
import { addBlobBytes, requireRoom } from '../../db/accounts/usage.ts';
import { findPlugin, lockPlugin, type Plugin, reserveSlug, setLatestVersion } from '../../db/catalog/plugins.ts';
import {
  type BuiltPackage,
  findVersion,
  insertVersion,
  listVersionNumbers,
  type Version,
  type VersionNumber,
  versionExists,
} from '../../db/catalog/versions.ts';
import { BlobTooLargeError } from '../../db/files/blob-errors.ts';
import type { Staging } from '../../db/files/staging.ts';
import { findInstallationOfPlugin } from '../../db/installations/installations.ts';
import { beginRollout } from '../../db/installations/rollouts.ts';
import { classifyDatabaseError } from '../../db/postgres/database-errors.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { findLatestVersion, findPreviousVersion, validateSemVer } from '../../sdk/contract/version-numbers.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { rollOutLatestVersion } from '../installations/version-rollout.ts';
import { type BuildServices, buildPackage, type StagedBuild } from '../package/builder.ts';
import { invalidAt } from '../package/invalid-package.ts';
import type { PackageFile } from '../package/package-files.ts';
import type { PackageSource } from '../package/reader.ts';
import type { Services } from '../services.ts';
import type { Author } from './author.ts';
import { requireOwnedPlugin } from './plugin-access.ts';

/** Maximum number of versions of one plugin. Each publish and yank compares their numbers. */
const VERSIONS_MAX = 2_000;

/** A version or a draft that was just built. */
export interface BuiltVersion {
  readonly version: Version;
  readonly warnings: readonly string[];
}

/**
 * @throws Problem when the caller is not the owner, the version number is invalid or taken, or the package is invalid
 */
export async function publishVersion(
  services: Services,
  author: Author,
  pluginId: string,
  semVer: string,
  source: PackageSource,
): Promise<BuiltVersion> {
  const plugin = requireOwnedPlugin(await findPlugin(services.pool, pluginId), author.caller);
  const fault = validateSemVer(semVer);
  if (fault) throw invalidAt({ field: 'semVer', message: `The version number ${fault}.` });
  await requireRoom(services.pool, plugin.ownerId, 'versions', 1);
  // Checked early to save a build, and again under the lock, where the result counts.
  if (await versionExists(services.pool, plugin.id, semVer)) throw taken(semVer);
  return buildVersion(services, author, plugin, source, (tx, locked, built) => addVersion(tx, locked, semVer, built));
}

/**
 * Builds a package and stores its files durably, then runs `record` with the plugin locked. Waits for the update of the
 * caller's own installation, so that its author sees what was just built.
 *
 * @throws Problem `quota_exceeded` when the account wrote too much to the blob store lately
 */
export async function buildVersion(
  services: Services,
  { caller, signInAgain }: Author,
  { id: pluginId, slug, ownerId: accountId }: Plugin,
  source: PackageSource,
  record: (tx: ClientBase, plugin: Plugin, built: BuiltPackage) => Promise<Version>,
): Promise<BuiltVersion> {
  await using staging = await services.blobs.stage();
  const { pool, bundler, blobs } = services;
  const forAccount: BuildServices = {
    blobs: {
      put: async (bytes) => {
        await addBlobBytes(pool, accountId, bytes.byteLength);
        return blobs.put(bytes);
      },
    },
    bundler: { bundle: (of) => bundler.bundle(of, accountId) },
    introspect: (request) => services.introspect({ ...request, accountId }),
    loopKey: accountId,
  };
  const built = await buildOrRefuse(() => buildPackage(forAccount, staging, source, slug));
  await addBlobBytes(pool, accountId, built.sizeBytes);
  await storeFiles(staging, built.files);
  await signInAgain();
  // A slow store may have taken longer than the time for which its sweep spares what is new.
  const names = [built.bundleSha256, built.sourceMapSha256, ...built.files.map(({ sha256 }) => sha256)];
  await blobs.keep(names.filter((name) => name !== null));
  const version = await inTransaction(pool, async (tx) =>
    record(tx, requireOwnedPlugin(await lockPlugin(tx, pluginId, 'exclusive'), caller), built),
  );
  await rollOut(services, pluginId);
  await finishOwnUpdate(services, caller, pluginId);
  return { version, warnings: built.warnings };
}

/** @throws Problem `invalid_package` for a file that the store cannot take */
async function storeFiles(staging: Staging, files: readonly PackageFile[]): Promise<void> {
  try {
    await staging.commit(files);
  } catch (error) {
    if (!(error instanceof BlobTooLargeError)) throw error;
    const { path = '', sizeBytes } = files.find(({ sha256 }) => sha256 === error.sha256) ?? {};
    throw invalidAt({
      path,
      message: `The file has ${sizeBytes} bytes. This service keeps files in its database, which takes at most ${error.maxBytes} (${error.maxBytes / MIB} MiB) of each. Split it, or load it from elsewhere with host.http.`,
    });
  }
}

/** Offers the latest version to those that follow it. An outage does not fail the request: the rollout goes on later. */
export async function rollOut(services: Services, pluginId: string): Promise<void> {
  await rollOutLatestVersion(services, pluginId).catch(ignoreOutage);
}

function ignoreOutage(error: unknown): void {
  if (classifyDatabaseError(error) === null) throw error;
}

/** An outage does not fail the request: the version is stored, so a repetition would be refused. */
async function finishOwnUpdate({ pool, finishUpdate }: Services, caller: Caller, pluginId: string): Promise<void> {
  try {
    const installation = await findInstallationOfPlugin(pool, caller.id, pluginId);
    if (installation) await finishUpdate(installation.id);
  } catch (error) {
    ignoreOutage(error);
  }
}

/** Nesting that exhausts a stack is the package's fault, not an internal error. */
async function buildOrRefuse(build: () => Promise<StagedBuild>): Promise<StagedBuild> {
  try {
    return await build();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw invalidAt({ message: 'The package holds something that is nested too deeply.' });
  }
}

async function addVersion(tx: ClientBase, plugin: Plugin, semVer: string, built: BuiltPackage): Promise<Version> {
  const before = await listVersionNumbers(tx, plugin.id);
  if (before.some((version) => version.semVer === semVer)) throw taken(semVer);
  if (before.length >= VERSIONS_MAX) throw tooManyVersions(plugin);
  const numberBefore = findPreviousVersion(before, semVer);
  const previous = numberBefore && (await findVersion(tx, numberBefore.id));
  const added = previous ? findMissingCapabilities(built.capabilities, previous.capabilities) : built.capabilities;
  const version = await insertVersion(tx, plugin.id, semVer, built, added);
  await reserveSlug(tx, plugin.slug);
  await updateLatestVersion(tx, plugin, [...before, { id: version.id, status: version.status, semVer }]);
  return version;
}

/** Records the latest version, and begins to offer it to the installations that follow it: `rollOut` goes on after the transaction. */
export async function updateLatestVersion(
  tx: ClientBase,
  plugin: Plugin,
  versions: readonly VersionNumber[],
): Promise<void> {
  const id = findLatestVersion(versions)?.id ?? null;
  await setLatestVersion(tx, plugin.id, id);
  if (id !== plugin.latestVersionId) await beginRollout(tx, plugin.id);
}

const tooManyVersions = ({ slug }: Plugin): Problem =>
  new Problem(
    'too_many',
    `“${slug}” has its maximum of ${VERSIONS_MAX} versions, also counting those that were yanked. Test with drafts, and publish releases only.`,
  );

const taken = (semVer: string): Problem =>
  new Problem('version_exists', `Version ${semVer} exists already. A version never changes; publish a new number.`);
