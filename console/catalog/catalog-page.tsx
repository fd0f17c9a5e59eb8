/** What can be installed: searched as one types, page after page. */
import { Badge, Button, Card, Group, SimpleGrid, Skeleton, Stack, Text, TextInput, Title } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconRosetteDiscountCheck, IconSearch } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate, useRouter, useSearch } from '@tanstack/react-router';
import { bodyOf, rest } from '../rest/client.ts';
import type { components } from '../rest/schema.d.ts';
import { Nothing } from '../shell/nothing.tsx';
import { PageFailure } from '../shell/page-failure.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { PluginIcon } from '../shell/plugin-icon.tsx';
import { visibleText } from '../style/visible-text.ts';
import { ReachBadges } from './reach-badges.tsx';

type Summary = components['schemas']['CatalogSummary'];
const PAGE = 30;
/** Between the last key and the search, milliseconds: short enough to feel at once. */
const TYPING_MS = 120;

export function CatalogPage() {
  const { q = '' } = useSearch({ from: '/catalog' });
  const navigate = useNavigate({ from: '/catalog' });
  const router = useRouter();
  const search = useDebouncedCallback((text: string) => {
    // Whoever has opened an entry meanwhile is not taken back, even while that page still loads.
    if (router.latestLocation.pathname !== '/catalog') return;
    void navigate({ search: text === '' ? {} : { q: text }, replace: true });
  }, TYPING_MS);
  return (
    <Stack>
      <div>
        <Title order={1}>Catalog</Title>
        <Text c="dimmed">Plugins for your agents. Each says what it can reach before you install it.</Text>
      </div>
      <TextInput
        type="search"
        size="md"
        aria-label="Search the catalog"
        placeholder="Search by name, what it does, or what its readme says"
        defaultValue={q}
        onChange={(event) => search(event.currentTarget.value)}
        leftSection={<IconSearch size={18} aria-hidden />}
      />
      <Found q={q} />
    </Stack>
  );
}

function Found({ q }: { readonly q: string }) {
  const found = useInfiniteQuery({
    queryKey: ['marketplace', q],
    queryFn: ({ pageParam }) =>
      bodyOf(
        rest.GET('/marketplace', {
          params: {
            query: { limit: PAGE, ...(q === '' ? {} : { q }), ...(pageParam === '' ? {} : { cursor: pageParam }) },
          },
        }),
      ),
    initialPageParam: '',
    getNextPageParam: ({ nextCursor }) => nextCursor,
    placeholderData: (last) => last,
  });
  if (found.error) return <PageFailure error={found.error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeletons />;
  const entries = found.data.pages.flatMap(({ items }) => items);
  if (entries.length === 0) return <Nothing>{noneSaid(q)}</Nothing>;
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
        {entries.map((entry) => (
          <EntryCard key={entry.slug} entry={entry} />
        ))}
      </SimpleGrid>
      {found.hasNextPage ? (
        <Button variant="default" loading={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
          Show more
        </Button>
      ) : null}
    </>
  );
}

function EntryCard({ entry }: { readonly entry: Summary }) {
  return (
    <Card withBorder component="article" className="entry-card">
      <Stack gap="sm" h="100%">
        <Group wrap="nowrap" align="flex-start" gap="sm">
          <PluginIcon slug={entry.slug} name={entry.displayName} />
          <Stack gap={0} flex={1} miw={0}>
            <PageLink
              to="/catalog/$slug"
              params={{ slug: entry.slug }}
              fw={650}
              c="var(--mantine-color-text)"
              className="foreign entry-link"
            >
              {entry.displayName}
            </PageLink>
            <Author entry={entry} />
          </Stack>
          {entry.installed ? <Badge variant="light">Installed</Badge> : null}
        </Group>
        <Text size="sm" lineClamp={2} className="foreign">
          {visibleText(entry.description)}
        </Text>
        <Group gap="xs" mt="auto" justify="space-between">
          <ReachBadges reach={entry.reach} />
          <Text size="xs" c="dimmed">
            {entry.latest ? `${entry.latest.semVer} · ` : ''}
            {entry.installCount === 1 ? '1 installation' : `${entry.installCount} installations`}
          </Text>
        </Group>
      </Stack>
    </Card>
  );
}

function Author({ entry: { author } }: { readonly entry: Summary }) {
  return (
    <Group gap={4}>
      <Text size="xs" c="dimmed" className="foreign">
        by {author.name}
      </Text>
      {author.verified ? <IconRosetteDiscountCheck size={16} aria-label="Verified author" role="img" /> : null}
    </Group>
  );
}

function Skeletons() {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} aria-busy="true" aria-label="Loading">
      {['a', 'b', 'c', 'd', 'e', 'f'].map((key) => (
        <Skeleton key={key} height={150} />
      ))}
    </SimpleGrid>
  );
}

const noneSaid = (q: string): string =>
  q === ''
    ? 'Nothing is listed yet. Publish the first plugin: it appears here as soon as you list it.'
    : `Nothing is found for “${q}”. Try fewer or other words; small misspellings are forgiven.`;
