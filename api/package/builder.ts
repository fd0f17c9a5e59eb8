/** Builds an uploaded package: reads, checks, bundles and introspects it. */

import type { BuiltPackage } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import type { Staging } from '../../db/files/staging.ts';
import type { Introspection, IntrospectionRequest } from '../../db/jobs/introspections.ts';
import { findUnstorable, HAS_UNSTORABLE } from '../../db/postgres/storable-json.ts';
import { type Manifest, manifest } from '../../sdk/contract/manifest.ts';
import { type Bundle, type CodePackage, ENTRY } from './bundle.ts';
import { findChannelWarnings } from './channel-warnings.ts';
import { acceptIntrospection, checkOfferSize, checkSurfaces, discover, listCapabilities } from './discovery.ts';
import { readFrontmatter } from './frontmatter.ts';
import { invalidAt } from './invalid-package.ts';
import { type Package, type PackageFile, readText } from './package-files.ts';
import { readCommands, readSkills } from './prompts.ts';
import { type PackageSource, readPackage } from './reader.ts';
import { findSchemaWarnings } from './schema-warnings.ts';
import { findUnusedFiles } from './unused-files.ts';
import { findWarnings } from './warnings.ts';

const README = 'readme.md';
/** Estimated size of a file's row without its path, so that empty files count. */
const FILE_ROW_BYTES = 300;

/** The services that a build needs; the author's command line provides its own. */
export interface BuildServices {
  readonly bundler: { bundle(of: CodePackage): Promise<Bundle> };
  readonly blobs: Pick<Blobs, 'put'>;
  introspect(request: IntrospectionRequest): Promise<Introspection>;
  /** Whose turns of the event loop the build uses, such as the author's account. */
  readonly loopKey: string;
}
/** A finished build whose files are staged but not committed. */
export interface StagedBuild extends BuiltPackage {
  readonly files: readonly PackageFile[];
  /** Warnings for the author, which do not prevent the build. */
  readonly warnings: readonly string[];
}

/**
 * Builds a package. Only the bundle is stored, because the child that introspects it reads it.
 *
 * @param slug names the bundle in the plugin's stack traces, and its tools
 * @throws Problem `invalid_package`, `text_files_only`, `bundler_busy` or `unavailable`
 */
export async function buildPackage(
  services: BuildServices,
  staging: Staging,
  source: PackageSource,
  slug: string,
): Promise<StagedBuild> {
  const { loopKey } = services;
  const of = await readPackage(source, staging, loopKey);
  const readme = requireFile(of, README);
  requireFile(of, ENTRY);
  const head = readFrontmatter({ path: README, text: await readText(readme, loopKey) }, manifest);
  const prompts = { commands: await readCommands(of, loopKey), skills: await readSkills(of, loopKey) };
  const hasFetch = declaresHosts(head.data);
  const bundle = await services.bundler.bundle({ ...of, hasFetch });
  const stored = await services.blobs.put(Buffer.from(bundle.text));
  const request = { bundleSha256: stored.sha256, sourceName: `${slug}.js`, hasFetch };
  const introspected = acceptIntrospection(await services.introspect(request), bundle, request.sourceName);
  const found = introspected.registrations;
  const discovered = discover(introspected, prompts);
  checkSurfaces(slug, introspected);
  checkOfferSize(discovered);
  const sourceMap = await services.blobs.put(Buffer.from(bundle.sourceMap));
  const built: StagedBuild = {
    sourceSha256: of.sourceSha256,
    bundleSha256: stored.sha256,
    sourceMapSha256: sourceMap.sha256,
    sizeBytes: of.sizeBytes,
    storedBytes:
      of.sizeBytes +
      stored.sizeBytes +
      sourceMap.sizeBytes +
      countRowBytes(of) +
      Buffer.byteLength(JSON.stringify([discovered, found])),
    manifest: head.data,
    readme: head.body,
    capabilities: listCapabilities(head.data, found, prompts),
    discovered,
    registrations: found,
    files: of.files,
    warnings: await findWarnings(
      {
        bundling: [...bundle.warnings, ...findSchemaWarnings(introspected), ...findChannelWarnings(introspected)],
        manifest: head.data,
        code: bundle.text,
        sourceMap: bundle.sourceMap,
        commands: prompts.commands,
        unusedFiles: await findUnusedFiles(of, loopKey),
      },
      loopKey,
    ),
  };
  refuseUnstorable(README, built.manifest);
  refuseUnstorable(ENTRY, [discovered, found]);
  return built;
}

/** The table of files holds each path twice: in the row, and in the primary key. */
const countRowBytes = ({ files }: Package): number =>
  files.reduce((sum, { path }) => sum + FILE_ROW_BYTES + 2 * Buffer.byteLength(path), 0);

const declaresHosts = ({ capabilities }: Manifest): boolean =>
  capabilities.some((capability) => capability.startsWith('host.http:'));

/** Requires the two files that every package has. @throws Problem `invalid_package` */
export function requireLayout(files: readonly Pick<PackageFile, 'path'>[]): void {
  for (const path of [README, ENTRY]) requireFile({ files }, path);
}

/** The name of a file in lower case, with the ending of TypeScript: `index.ts` for `src/Index.mjs`. */
const readNearName = (path: string): string | undefined =>
  path
    .toLowerCase()
    .split('/')
    .at(-1)
    ?.replace(/\.[cm]?[jt]sx?$/, '.ts');

const countFolders = (path: string): number => path.split('/').length;

/** @throws Problem `invalid_package` */
function requireFile<File extends Pick<PackageFile, 'path'>>(
  of: { readonly files: readonly File[] },
  path: string,
): File {
  const file = of.files.find((candidate) => candidate.path === path);
  if (file) return file;
  const [near] = of.files
    .filter((candidate) => readNearName(candidate.path) === path)
    .sort((a, b) => countFolders(a.path) - countFolders(b.path));
  const hint = near ? ` There is “${near.path}”: it must be called ${path} and lie at the top.` : '';
  throw invalidAt({
    path,
    message: `The file is missing; every package has readme.md and index.ts at its top.${hint}`,
  });
}

/**
 * Rejects texts that jsonb cannot store, so that the author gets an error about the package instead of the database's.
 */
function refuseUnstorable(path: string, value: unknown): void {
  if (findUnstorable(value) !== null) throw invalidAt({ path, message: HAS_UNSTORABLE });
}
