/** Queries for the agents of plugins. */
import { useQuery } from '@tanstack/react-query';
import { readBody, rest } from './client.ts';
import type { components } from './schema.d.ts';

type Agent = components['schemas']['Agent'];

/** The most that one page has. */
const AGENTS_MAX = 1_000;

export function useAgents(): readonly Agent[] {
  const found = useQuery({
    queryKey: ['agents', 'all'],
    queryFn: () => readBody(rest.GET('/agents', { params: { query: { limit: AGENTS_MAX } } })),
  });
  return found.data?.items ?? [];
}
