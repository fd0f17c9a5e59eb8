/** The catalog page with its search. */
import { Badge, Card, Group, SimpleGrid, Skeleton, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useNavigate, useRouter, useSearch } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import type { components } from '../../sdk/rest/schema.d.ts';
import { useWaitingUpdates } from '../installations/declined-updates.ts';
import { readBody, rest } from '../rest/client.ts';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { PluginIcon } from '../shell/plugin-icon.tsx';
import { formatNumber } from '../style/format-number.ts';
import { IconCheck, IconDownload, IconSearch, IconSearchOff, IconTag } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { ReachBadges } from './reach-badges.tsx';
import { VerifiedIcon } from './verified-icon.tsx';

type Summary = components['schemas']['CatalogSummary'];
const PAGE = 30;
/** The service refuses a longer search text. */
const QUERY_MAX_CHARS = 200;
/** Debounce of the search, milliseconds. */
const TYPING_MS = 120;

export function CatalogPage() {
  const { q = '' } = useSearch({ from: '/catalog' });
  const navigate = useNavigate({ from: '/catalog' });
  const router = useRouter();
  const field = useRef<HTMLInputElement>(null);
  // A link to the catalog or the browser's back button changes the search, too. While the user types, the address may be older.
  useEffect(() => {
    if (field.current && field.current !== document.activeElement) field.current.value = q;
  }, [q]);
  const search = useDebouncedCallback((text: string) => {
    // The user may have opened an entry in the meantime.
    if (router.latestLocation.pathname !== '/catalog') return;
    void navigate({ search: text === '' ? {} : { q: text }, replace: true });
  }, TYPING_MS);
  return (
    <Stack>
      <PageHeader title="Catalog" subtitle="Plugins for your agents. Each entry lists what the plugin can access." />
      <TextInput
        ref={field}
        type="search"
        size="md"
        aria-label="Search the catalog"
        placeholder="Search by name, what it does, or what its readme says"
        defaultValue={q}
        maxLength={QUERY_MAX_CHARS}
        onChange={(event) => search(event.currentTarget.value)}
        leftSection={<IconSearch size={18} />}
      />
      <Found q={q} />
    </Stack>
  );
}

function Found({ q }: { readonly q: string }) {
  const waiting = useWaitingUpdates();
  return (
    <PagedList
      queryKey={['marketplace', q]}
      read={(page) =>
        readBody(rest.GET('/marketplace', { params: { query: { limit: PAGE, ...(q === '' ? {} : { q }), ...page } } }))
      }
      nouns={['plugin', 'plugins']}
      empty={describeEmpty(q)}
      emptyIcon={IconSearchOff}
      loading={<Skeletons />}
      keepsPrevious
    >
      {(entries) => (
        <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
          {entries.map((entry) => (
            <EntryCard key={entry.slug} entry={entry} isWaiting={waiting.has(entry.slug)} />
          ))}
        </SimpleGrid>
      )}
    </PagedList>
  );
}

function EntryCard({ entry, isWaiting }: { readonly entry: Summary; readonly isWaiting: boolean }) {
  return (
    <Card withBorder component="article" className="entry-card">
      <Stack gap={10} h="100%">
        <Group wrap="nowrap" gap="sm">
          <PluginIcon slug={entry.slug} name={entry.displayName} size={44} />
          <Stack gap={1} flex={1} miw={0}>
            <PageLink
              to="/catalog/$slug"
              params={{ slug: entry.slug }}
              fw={620}
              fz="0.9375rem"
              lh={1.3}
              className="foreign entry-link"
            >
              {escapeText(entry.displayName)}
            </PageLink>
            <Author entry={entry} />
          </Stack>
          {isWaiting ? <Badge color="yellow">Update waits</Badge> : null}
          {entry.installed && !isWaiting ? <Installed /> : null}
        </Group>
        <Text size="sm" lineClamp={2} lh={1.5} mih="3em" className="foreign">
          {escapeText(entry.description)}
        </Text>
        <Stack gap={10} mt="auto">
          <ReachBadges reach={entry.reach} />
          <Foot entry={entry} />
        </Stack>
      </Stack>
    </Card>
  );
}

function Foot({ entry: { installCount, latest, tier } }: { readonly entry: Summary }) {
  return (
    <div className="entry-foot">
      <span className="with-icon">
        <IconDownload size={14} stroke={1.8} />
        {installCount === 1 ? '1 installation' : `${formatNumber(installCount)} installations`}
      </span>
      {latest ? (
        <span className="with-icon">
          <IconTag size={14} stroke={1.8} />
          {latest.semVer}
        </span>
      ) : null}
      <span style={{ marginInlineStart: 'auto' }}>{tier}</span>
    </div>
  );
}

function Installed() {
  return (
    <Badge variant="light" leftSection={<IconCheck size={12} stroke={2.5} />}>
      Installed
    </Badge>
  );
}

function Author({ entry: { author } }: { readonly entry: Summary }) {
  return (
    <Group gap={4}>
      <Text size="xs" c="dimmed" className="foreign">
        by {escapeText(author.name)}
      </Text>
      {author.verified ? <VerifiedIcon size={15} /> : null}
    </Group>
  );
}

function Skeletons() {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} aria-busy="true" aria-label="Loading">
      {['a', 'b', 'c', 'd', 'e', 'f'].map((key) => (
        <Skeleton key={key} height={188} radius="md" />
      ))}
    </SimpleGrid>
  );
}

const describeEmpty = (q: string): string =>
  q === ''
    ? 'No plugin is listed yet. Publish a plugin and list it to see it here.'
    : `Nothing is found for “${q}”. Try fewer or different words.`;
