/** Queries for installations and catalog entries. */
import { useQuery } from '@tanstack/react-query';
import type { components } from '../../sdk/rest/schema.d.ts';
import type { Page } from '../../sdk/session/api-types.ts';
import { readBody, rest } from './client.ts';

export type Installation = components['schemas']['Installation'];
/** Refresh interval, milliseconds. */
export const FOLLOW_MS = 2_500;
/** Where only what is published is shown, such as waiting updates, which is rare. Milliseconds. */
const PUBLISHED_MS = 60_000;
/** A refresh reads all installations: those of the default quota every 2.5 s, a thousand every 25 s. Milliseconds. */
const PER_INSTALLATION_MS = 25;
/** Above the default quota of an account. */
const ALL = 1_000;

/** Reads all pages: large installations end a page early. */
export async function readInstallations(): Promise<Installation[]> {
  const items: Installation[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = { limit: ALL, ...(cursor === '' ? {} : { cursor }) };
    const page: Page<Installation> = await readBody(rest.GET('/installations', { params: { query } }));
    items.push(...page.items);
    cursor = page.nextCursor;
  }
  return items;
}

/** @param isFollowed whether the page shows their states, which change often */
export const useInstallations = ({ isFollowed = true } = {}) =>
  useQuery({
    queryKey: ['installations'],
    queryFn: readInstallations,
    refetchInterval: ({ state }) =>
      Math.max(isFollowed ? FOLLOW_MS : PUBLISHED_MS, (state.data?.length ?? 0) * PER_INSTALLATION_MS),
  });

/** Reads a catalog entry. @param since part of the query key: a change reads the entry again */
export const useEntry = (slug: string, since: string | null = null) =>
  useQuery({
    queryKey: ['marketplace', 'entry', slug, since],
    queryFn: () => readBody(rest.GET('/marketplace/{slug}', { params: { path: { slug } } })),
    // An author may publish or yank a version meanwhile.
    refetchInterval: PUBLISHED_MS,
  });
