/** A list that loads page by page. */
import { Button, Group, Skeleton, Stack, Text } from '@mantine/core';
import { type InfiniteData, keepPreviousData, type QueryKey, useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Page } from '../../sdk/session/api-types.ts';
import { useReadError } from '../rest/use-read-error.ts';
import type { Icon } from '../style/icons.tsx';
import { useAnnouncedResult } from './announcements.ts';
import { EmptyState } from './empty-state.tsx';
import { ErrorAlert } from './error-alert.tsx';

/**
 * A refresh reads all loaded pages, one request each: three of them every 2.5 s are 72 of the 1,200 reads that an account may make
 * in a minute. A longer list is refreshed on request.
 */
const REFRESHED_PAGES_MAX = 3;
const NONE_OF_NEWEST = 'None of the newest entries match. Select “Show more” to search older ones.';

interface PagedListProps<Item> {
  readonly queryKey: QueryKey;
  /** @param page part of the query; empty for the first page */
  readonly read: (page: { readonly cursor?: string }) => Promise<Page<Item>>;
  /** Milliseconds between refreshes, while few pages are loaded. */
  readonly refreshMs?: number;
  /** What the list has, singular and plural, as it is announced after a search. Default: entries. */
  readonly nouns?: readonly [one: string, many: string];
  /** Shown instead of an empty list. A text is also announced after a search. */
  readonly empty: ReactNode;
  /** The icon of a text that is shown instead of an empty list. */
  readonly emptyIcon?: Icon;
  /** Shown until the first page is there. */
  readonly loading?: ReactNode;
  /** Whether the list of another key stays until this one is loaded. */
  readonly keepsPrevious?: boolean;
  readonly children: (items: Item[]) => ReactNode;
}

export function PagedList<Item>(props: PagedListProps<Item>) {
  const { queryKey, read, refreshMs, empty, emptyIcon, loading, keepsPrevious = false, children } = props;
  const found = useInfiniteQuery<Page<Item>, Error, InfiniteData<Page<Item>>, QueryKey, string>({
    queryKey,
    queryFn: ({ pageParam }) => read(pageParam === '' ? {} : { cursor: pageParam }),
    initialPageParam: '',
    getNextPageParam: ({ nextCursor }) => nextCursor,
    refetchInterval: ({ state }) => (refreshMs !== undefined && isShort(state.data) ? refreshMs : false),
    ...(keepsPrevious ? { placeholderData: keepPreviousData } : {}),
  });
  const isSearched = found.data !== undefined && !found.isPlaceholderData;
  useAnnouncedResult(
    JSON.stringify([queryKey, found.data?.pages.length]),
    isSearched ? describeResult(found.data.pages, found.hasNextPage, props) : null,
  );
  const retry = () => void (found.isFetchNextPageError ? found.fetchNextPage() : found.refetch());
  const error = useReadError(found);
  const alert = error ? <ErrorAlert error={error} reset={retry} /> : null;
  if (!found.data) return alert ?? loading ?? <Skeleton height={120} aria-label="Loading" className="loading-list" />;
  const items = found.data.pages.flatMap((page) => [...page.items]);
  if (items.length === 0 && !found.hasNextPage)
    return (
      alert ??
      (typeof empty === 'string' ? (
        <EmptyState {...(emptyIcon === undefined ? {} : { icon: emptyIcon })}>{empty}</EmptyState>
      ) : (
        empty
      ))
    );
  return (
    <Stack>
      {items.length === 0 ? <EmptyState>{NONE_OF_NEWEST}</EmptyState> : children(items)}
      {alert}
      {refreshMs === undefined || isShort(found.data) ? null : (
        <Group gap="sm" justify="center">
          <Text size="sm" c="dimmed">
            A list of this length is not refreshed by itself.
          </Text>
          <Button size="compact-sm" variant="default" loading={found.isRefetching} onClick={() => void found.refetch()}>
            Refresh
          </Button>
        </Group>
      )}
      {found.hasNextPage && alert === null ? (
        <Button variant="default" mx="auto" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show more
        </Button>
      ) : null}
    </Stack>
  );
}

const isShort = (data: { readonly pages: readonly unknown[] } | undefined): boolean =>
  (data?.pages.length ?? 0) <= REFRESHED_PAGES_MAX;

function describeResult<Item>(
  pages: readonly Page<Item>[],
  hasMore: boolean,
  { empty, nouns: [one, many] = ['entry', 'entries'] }: Pick<PagedListProps<Item>, 'empty' | 'nouns'>,
): string {
  const count = pages.reduce((sum, { items }) => sum + items.length, 0);
  if (count === 0 && hasMore) return NONE_OF_NEWEST;
  if (count === 0) return typeof empty === 'string' ? empty : `No ${many}`;
  return `${count} ${count === 1 ? one : many}${hasMore ? ', and more' : ''}`;
}
