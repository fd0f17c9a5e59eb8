/** Reads what a page is about, again and again until the service says that it is gone. */
import { type QueryKey, useQuery } from '@tanstack/react-query';
import { FOLLOW_MS } from './installations.ts';
import { isGone } from './problem.ts';
import { useReadError } from './use-read-error.ts';

interface Subject<Data> {
  /** Undefined while it loads and when it is gone, although a cache may still have it. */
  readonly data: Data | undefined;
  /** Why there is no data. An error of a later read is not shown: the page keeps what it has. */
  readonly error: Error | null;
  readonly refetch: () => void;
}

export function useSubject<Data>(queryKey: QueryKey, queryFn: () => Promise<Data>): Subject<Data> {
  const found = useQuery({
    queryKey,
    queryFn,
    refetchInterval: ({ state }) => (isGone(state.error) ? false : FOLLOW_MS),
  });
  const error = useReadError(found);
  const data = isGone(error) ? undefined : found.data;
  return { data, error: data === undefined ? error : null, refetch: () => void found.refetch() };
}
