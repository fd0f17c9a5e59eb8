/** Queries for the agents of plugins. */
import { useQuery } from '@tanstack/react-query';
import type { components } from '../../sdk/rest/schema.d.ts';
import type { Page } from '../../sdk/session/api-types.ts';
import { readBody, rest } from './client.ts';

export type AgentPage = Page<components['schemas']['Agent']>;

/** The most that one page has. */
const AGENTS_MAX = 1_000;

/** Returns the oldest agents. Undefined: they are not known, because the service has not answered yet. */
export function useAgents(): AgentPage | undefined {
  const found = useQuery({
    queryKey: ['agents', 'all'],
    queryFn: () => readBody(rest.GET('/agents', { params: { query: { limit: AGENTS_MAX } } })),
  });
  return found.data;
}
