/**
 * `@bulkhead/sdk/testing`: opens a package in a jailed process, without a service. Its types are in
 * sdk/testing/testing.ts.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import type { FolderFile } from '../../sdk/cli/local-tools.ts';
import { readPackageFolder } from '../../sdk/cli/package-folder.ts';
import { formatLocation, Problem } from '../../sdk/contract/errors.ts';
import { listSecretUses, type Manifest } from '../../sdk/contract/manifest.ts';
import type { openPlugin as Declared, OpenPlugin, PluginOptions } from '../../sdk/testing/testing.ts';
import { buildLocally, type LocalBuild } from '../local-build.ts';
import { startIntrospector } from '../local-introspection.ts';
import { type BorrowedSandbox, borrowSandbox } from '../local-sandbox.ts';
import { refuseUnknownFields, resolvePluginSettings } from './plugin-settings.ts';
import { RunningPlugin } from './running-plugin.ts';
import { ScriptedHost } from './scripted-host.ts';

export { PluginError } from './plugin-error.ts';

const OPTIONS = {
  grants: true,
  settings: true,
  secrets: true,
  host: true,
  agent: true,
  session: true,
} as const satisfies Record<keyof PluginOptions, true>;

export const openPlugin: typeof Declared = async (folder: string, options: PluginOptions = {}): Promise<OpenPlugin> => {
  refuseUnknownFields('the second argument', options, OPTIONS);
  const { slug, files } = await readPackageFolder(process.cwd(), folder);
  const borrowed = await borrowSandbox();
  try {
    const built = await buildIn(borrowed, files, slug);
    const settings = resolvePluginSettings(built.manifest, options);
    const secrets = { values: options.secrets ?? {}, uses: listSecretUses(built.manifest) };
    const host = new ScriptedHost(resolveGrants(built.manifest, options), options.host ?? {}, secrets, files);
    return await RunningPlugin.start({ slug, files, built, settings, host, options, ...borrowed });
  } catch (error) {
    await borrowed.release();
    throw error instanceof Problem ? new Error(`${basename(resolve(folder))}: ${formatFaults(error)}`) : error;
  }
};

async function buildIn(
  { directory }: BorrowedSandbox,
  files: readonly FolderFile[],
  slug: string,
): Promise<LocalBuild> {
  // Other builds may run at the same time.
  const scratch = await mkdtemp(join(directory, 'build-'));
  // Started early, because the start takes as long as the bundling.
  const introspector = startIntrospector(scratch);
  try {
    return await buildLocally(files, slug, scratch, introspector);
  } finally {
    await introspector.end();
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Formats each fault on its own line, like a compiler. */
const formatFaults = ({ message, errors = [] }: Problem): string =>
  errors.length < 2 ? message : errors.map(formatLocation).join('\n');

function resolveGrants({ capabilities }: Manifest, { grants = capabilities }: PluginOptions): readonly string[] {
  const undeclared = grants.find((grant) => !capabilities.includes(grant));
  if (undeclared === undefined) return grants;
  const declared = capabilities.length > 0 ? `there are ${capabilities.join(', ')}` : 'there are none';
  throw new Error(
    `grants: ${undeclared} is not among the capabilities in readme.md (${declared}): declare it there, or leave it out here.`,
  );
}
