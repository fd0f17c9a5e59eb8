/** Reads one of the account's own plugins. */
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from './client.ts';
import { useSubject } from './use-subject.ts';

export type Plugin = components['schemas']['PluginDetail'];

export const usePlugin = (id: string) =>
  useSubject(['plugins', id], () => readBody(rest.GET('/plugins/{id}', { params: { path: { id } } })));

/** Counts the versions that can be installed. */
export const countPublished = ({ versions, leftOutVersions }: Plugin): number =>
  [...versions, ...leftOutVersions].filter(({ status }) => status === 'published').length;
