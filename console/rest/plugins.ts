/** Reads one of the account's own plugins. */
import { useQuery } from '@tanstack/react-query';
import { readBody, rest } from './client.ts';
import { FOLLOW_MS } from './installations.ts';
import type { components } from './schema.d.ts';

export type Plugin = components['schemas']['PluginDetail'];

export const usePlugin = (id: string) =>
  useQuery({
    queryKey: ['plugins', id],
    queryFn: () => readPlugin(id),
    refetchInterval: FOLLOW_MS,
  });

async function readPlugin(id: string): Promise<Plugin> {
  const plugin = await readBody(rest.GET('/plugins/{id}', { params: { path: { id } } }));
  // The API of an earlier release, which may answer during an upgrade, has no such list.
  return { ...plugin, leftOutVersions: plugin.leftOutVersions ?? [] };
}

/** Counts the versions that can be installed. */
export const countPublished = ({ versions, leftOutVersions }: Plugin): number =>
  [...versions, ...leftOutVersions].filter(({ status }) => status === 'published').length;
