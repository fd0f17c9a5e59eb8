/** Installations, followed while a page shows them. */
import { useQuery } from '@tanstack/react-query';
import { readBody, rest } from './client.ts';
import type { components } from './schema.d.ts';

export type Installation = components['schemas']['Installation'];
/** A crash or an update is seen this much later at most, milliseconds. */
export const FOLLOW_MS = 2_500;
/** More than an account may have by default. */
const ALL = 1_000;

export const useInstallations = () =>
  useQuery({
    queryKey: ['installations'],
    queryFn: () => readBody(rest.GET('/installations', { params: { query: { limit: ALL } } })),
    refetchInterval: FOLLOW_MS,
  });

export const useInstallation = (id: string) =>
  useQuery({
    queryKey: ['installations', id],
    queryFn: () => readBody(rest.GET('/installations/{id}', { params: { path: { id } } })),
    refetchInterval: FOLLOW_MS,
  });

/**
 * What the catalog says of it.
 *
 * @param since what the page knows of it: when that changes, it is read anew
 */
export const useEntry = (slug: string, since: string | null = null) =>
  useQuery({
    queryKey: ['marketplace', 'entry', slug, since],
    queryFn: () => readBody(rest.GET('/marketplace/{slug}', { params: { path: { slug } } })),
  });
