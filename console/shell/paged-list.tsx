/** A list that loads page by page. */
import { Button, Skeleton, Stack } from '@mantine/core';
import { type InfiniteData, type QueryKey, useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { EmptyState } from './empty-state.tsx';
import { ErrorAlert } from './error-alert.tsx';

interface Page<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
}
interface PagedListProps<Item> {
  readonly of: QueryKey;
  /** @param cursor undefined: the first page */
  readonly read: (cursor: string | undefined) => Promise<Page<Item>>;
  /** Milliseconds between refreshes. */
  readonly every?: number;
  readonly none: ReactNode;
  readonly children: (items: Item[]) => ReactNode;
}

export function PagedList<Item>({ of, read, every, none, children }: PagedListProps<Item>) {
  const found = useInfiniteQuery<Page<Item>, Error, InfiniteData<Page<Item>>, QueryKey, string>({
    queryKey: of,
    queryFn: ({ pageParam }) => read(pageParam === '' ? undefined : pageParam),
    initialPageParam: '',
    getNextPageParam: ({ nextCursor }) => nextCursor,
    refetchInterval: every ?? false,
  });
  if (found.error) return <ErrorAlert error={found.error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeleton height={120} aria-label="Loading" />;
  const items = found.data.pages.flatMap((page) => [...page.items]);
  if (items.length === 0) return typeof none === 'string' ? <EmptyState>{none}</EmptyState> : none;
  return (
    <Stack>
      {children(items)}
      {found.hasNextPage ? (
        <Button variant="default" mx="auto" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show more
        </Button>
      ) : null}
    </Stack>
  );
}
