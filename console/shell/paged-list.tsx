/** A list that loads page by page. */
import { Button, Skeleton, Stack } from '@mantine/core';
import { type InfiniteData, keepPreviousData, type QueryKey, useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Page } from '../../sdk/session/api-types.ts';
import { EmptyState } from './empty-state.tsx';
import { ErrorAlert } from './error-alert.tsx';

interface PagedListProps<Item> {
  readonly queryKey: QueryKey;
  /** @param page part of the query; empty for the first page */
  readonly read: (page: { readonly cursor?: string }) => Promise<Page<Item>>;
  /** Milliseconds between refreshes. */
  readonly refreshMs?: number;
  /** Shown instead of an empty list. */
  readonly empty: ReactNode;
  /** Shown until the first page is there. */
  readonly loading?: ReactNode;
  /** Whether the list of another key stays until this one is loaded. */
  readonly keepsPrevious?: boolean;
  readonly children: (items: Item[]) => ReactNode;
}

export function PagedList<Item>(props: PagedListProps<Item>) {
  const { queryKey, read, refreshMs, empty, loading, keepsPrevious = false, children } = props;
  const found = useInfiniteQuery<Page<Item>, Error, InfiniteData<Page<Item>>, QueryKey, string>({
    queryKey,
    queryFn: ({ pageParam }) => read(pageParam === '' ? {} : { cursor: pageParam }),
    initialPageParam: '',
    getNextPageParam: ({ nextCursor }) => nextCursor,
    refetchInterval: refreshMs ?? false,
    ...(keepsPrevious ? { placeholderData: keepPreviousData } : {}),
  });
  const retry = () => void (found.isFetchNextPageError ? found.fetchNextPage() : found.refetch());
  const alert = found.error ? <ErrorAlert error={found.error} reset={retry} /> : null;
  if (!found.data) return alert ?? loading ?? <Skeleton height={120} aria-label="Loading" />;
  const items = found.data.pages.flatMap((page) => [...page.items]);
  if (items.length === 0 && !found.hasNextPage)
    return alert ?? (typeof empty === 'string' ? <EmptyState>{empty}</EmptyState> : empty);
  return (
    <Stack>
      {items.length === 0 ? (
        <EmptyState>None of the newest entries match. Select “Show more” to search older ones.</EmptyState>
      ) : (
        children(items)
      )}
      {alert}
      {found.hasNextPage && alert === null ? (
        <Button variant="default" mx="auto" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show more
        </Button>
      ) : null}
    </Stack>
  );
}
