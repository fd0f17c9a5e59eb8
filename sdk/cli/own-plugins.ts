/** The author's own plugins and installations, found by what authors call them. */
import { CommandError } from './failure.ts';
import type { Installation, Plugin, PluginDetail, Version } from './records.ts';
import type { Rest } from './rest.ts';

/** The caller's plugin of a slug, with its versions; null when there is none. */
export async function findPlugin(rest: Rest, slug: string): Promise<PluginDetail | null> {
  const own = (await rest.all<Plugin>('/plugins')).find((plugin) => plugin.slug === slug);
  return own ? rest.get<PluginDetail>(`/plugins/${own.id}`) : null;
}

/** @throws CommandError that says what to do first */
export async function requirePlugin(rest: Rest, slug: string): Promise<PluginDetail> {
  const plugin = await findPlugin(rest, slug);
  if (plugin) return plugin;
  const message = `You have no plugin “${slug}” at ${rest.url}: publish it first, or name another one with \`--slug\`.`;
  throw new CommandError('not_found', message);
}

/** @throws CommandError that names the versions there are */
export function requireVersion(plugin: PluginDetail, semVer: string): Version {
  const version = plugin.versions.find((one) => one.semVer === semVer);
  if (version) return version;
  const known = plugin.versions.map((one) => one.semVer).join(', ');
  const hint = known === '' ? 'nothing is published yet' : `there are ${known}`;
  throw new CommandError('not_found', `“${plugin.slug}” has no version ${semVer}: ${hint}.`);
}

/**
 * An installation of the caller.
 *
 * @param named its plugin's slug, or its id
 * @throws CommandError that says what to do first
 */
export async function requireInstallation(rest: Rest, named: string): Promise<Installation> {
  const all = await rest.all<Installation>('/installations');
  const found = all.find(({ slug, id }) => slug === named || id === named);
  if (found) return found;
  const message = `“${named}” is not installed at ${rest.url}: run \`bulkhead install ${named}\`.`;
  throw new CommandError('not_found', message);
}
