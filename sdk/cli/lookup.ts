/** Finds what the user's account has by slug, id or name. */
import { CommandError } from './failure.ts';
import { suggestNearName } from './nearest-name.ts';
import type { Rest } from './rest.ts';
import type { Installation, Plugin, PluginDetail, Version } from './rest-types.ts';
import { toOneLine } from './terminal-text.ts';

type ListedVersion = Pick<Version, 'id' | 'semVer'> & Partial<Pick<Version, 'capabilities'>>;

/** Finds the user's plugin with its versions. Null: not found. */
export async function findPlugin(rest: Rest, slug: string): Promise<PluginDetail | null> {
  return readPlugin(rest, await listPlugins(rest), slug);
}

const listPlugins = (rest: Rest): Promise<readonly Plugin[]> => rest.getAll<Plugin>('/plugins');

async function readPlugin(rest: Rest, own: readonly Plugin[], slug: string): Promise<PluginDetail | null> {
  const found = own.find((plugin) => plugin.slug === slug);
  return found ? rest.get<PluginDetail>(`/plugins/${found.id}`) : null;
}

const suggestSlug = (slug: string, known: readonly { readonly slug: string }[]): string =>
  suggestNearName(
    slug,
    known.map((one) => one.slug),
  );

/** @throws CommandError if the plugin is not found */
export async function requirePlugin(rest: Rest, slug: string): Promise<PluginDetail> {
  const own = await listPlugins(rest);
  const plugin = await readPlugin(rest, own, slug);
  if (plugin) return plugin;
  const near = suggestSlug(slug, own);
  const advice = near === '' ? 'Publish it first, or pass another slug.' : `${near} Otherwise, publish it first.`;
  throw new CommandError('not_found', `You have no plugin “${slug}” at ${rest.url}. ${advice}`);
}

/** @returns the version, without its capabilities if the service left them out @throws CommandError if it is not found */
export function requireVersion(plugin: PluginDetail, semVer: string): ListedVersion {
  const versions: readonly ListedVersion[] = [...plugin.versions, ...(plugin.leftOutVersions ?? [])];
  const found = versions.find((version) => version.semVer === semVer);
  if (found) return found;
  const known = versions.map((version) => version.semVer).join(', ');
  const hint = known === '' ? 'It has no published version.' : `Its versions are ${known}.`;
  throw new CommandError('not_found', `“${plugin.slug}” has no version ${semVer}. ${hint}`);
}

/** Finds the user's installation of a plugin. Null: not installed. */
export async function findInstallation(rest: Rest, slug: string): Promise<Installation | null> {
  const all = await rest.getAll<Installation>('/installations');
  return all.find((installation) => installation.slug === slug) ?? null;
}

/**
 * @param slugOrId the plugin's slug or the installation's id
 * @param installOption what `install` needs for the command, such as `--draft`
 * @throws CommandError if the installation is not found
 */
export async function requireInstallation(rest: Rest, slugOrId: string, installOption = ''): Promise<Installation> {
  const all = await rest.getAll<Installation>('/installations');
  const found = all.find(({ slug, id }) => slug === slugOrId || id === slugOrId);
  if (found) return found;
  const install = `bulkhead install ${slugOrId} ${installOption}`.trimEnd();
  const near = suggestSlug(slugOrId, all);
  const advice = near === '' ? 'Run' : `${near} Otherwise, run`;
  throw new CommandError('not_found', `“${slugOrId}” is not installed at ${rest.url}. ${advice} \`${install}\`.`);
}

interface LookupTexts {
  /** Why none was found. */
  readonly missing: string;
  /** Why the name is not enough. */
  readonly ambiguous: string;
  /** The command that lists all. */
  readonly list: string;
}

/** @throws CommandError if none has this id or name, or several have the name */
export function requireByIdOrName<T extends { readonly id: string; readonly name: string }>(
  all: readonly T[],
  wanted: string,
  { missing, ambiguous, list }: LookupTexts,
): T {
  // An id first: another one may have it as its name.
  const withId = all.filter(({ id }) => id === wanted);
  const found = withId.length > 0 ? withId : all.filter(({ name }) => name === wanted);
  const [first] = found;
  if (first && found.length === 1) return first;
  const [code, why] = first ? ['ambiguous', ambiguous] : ['not_found', missing];
  throw new CommandError(code, `${why}: ${toOneLine(wanted)}. See: ${list}`);
}
