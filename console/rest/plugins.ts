/** Reads one of the account's own plugins. */
import { useQuery } from '@tanstack/react-query';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from './client.ts';
import { FOLLOW_MS } from './installations.ts';

export type Plugin = components['schemas']['PluginDetail'];

export const usePlugin = (id: string) =>
  useQuery({
    queryKey: ['plugins', id],
    queryFn: () => readBody(rest.GET('/plugins/{id}', { params: { path: { id } } })),
    refetchInterval: FOLLOW_MS,
  });

/** Counts the versions that can be installed. */
export const countPublished = ({ versions, leftOutVersions }: Plugin): number =>
  [...versions, ...leftOutVersions].filter(({ status }) => status === 'published').length;
