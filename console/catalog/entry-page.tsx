/** One plugin of the catalog: what it is, what it can reach, what it brings, and the way to install it. */
import { Alert, Badge, Grid, Group, Skeleton, Stack, Text, Title } from '@mantine/core';
import { IconRosetteDiscountCheck } from '@tabler/icons-react';
import { useParams } from '@tanstack/react-router';
import { lazy, Suspense } from 'react';
import { useEntry } from '../rest/installations.ts';
import type { components } from '../rest/schema.d.ts';
import { Moment } from '../shell/moment.tsx';
import { PageFailure } from '../shell/page-failure.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { Part } from '../shell/part.tsx';
import { PluginIcon } from '../shell/plugin-icon.tsx';
import { visibleText } from '../style/visible-text.ts';
import { DiscoveredList } from './discovered-list.tsx';
import { InstallButton } from './install-button.tsx';
import { ReachList } from './reach-list.tsx';

export type Entry = components['schemas']['CatalogEntry'];
const Readme = lazy(() => import('./readme.tsx').then(({ Readme }) => ({ default: Readme })));

export function EntryPage() {
  const { slug } = useParams({ from: '/catalog/$slug' });
  const entry = useEntry(slug);
  if (entry.error) return <PageFailure error={entry.error} reset={() => void entry.refetch()} />;
  if (!entry.data) return <Skeleton height={240} aria-label="Loading" />;
  const { readme, reach, discovered, versions } = entry.data;
  return (
    <Stack>
      <Head entry={entry.data} />
      <Grid>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Part title="Readme">
            <Suspense fallback={<Skeleton height={160} />}>
              {readme.trim() === '' ? <Text>Its readme says nothing more.</Text> : <Readme text={readme} />}
            </Suspense>
          </Part>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Stack>
            <Part title="What it can reach">
              <ReachList reach={reach} />
            </Part>
            {discovered ? (
              <Part title="What it brings">
                <DiscoveredList discovered={discovered} />
              </Part>
            ) : null}
            <Part title="Versions">
              {versions.length === 0 ? <Text>None is published yet.</Text> : null}
              {versions.map(({ versionId, semVer, publishedAt }) => (
                <Group key={versionId} justify="space-between">
                  <Text size="sm" ff="monospace">
                    {semVer}
                  </Text>
                  <Text size="sm" c="dimmed">
                    <Moment at={publishedAt} />
                  </Text>
                </Group>
              ))}
            </Part>
          </Stack>
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

function Head({ entry }: { readonly entry: Entry }) {
  return (
    <>
      <Group justify="space-between" align="flex-start">
        <Group wrap="nowrap">
          <PluginIcon slug={entry.slug} name={entry.displayName} size={56} />
          <Title order={1} className="foreign">
            {entry.displayName}
          </Title>
        </Group>
        {entry.installationId === null ? (
          <InstallButton entry={entry} />
        ) : (
          <PageLink to="/installations/$id" params={{ id: entry.installationId }} fw={650}>
            Installed: open it
          </PageLink>
        )}
      </Group>
      <Text className="foreign">{visibleText(entry.description)}</Text>
      <Group gap="xs">
        <Text size="sm" className="foreign">
          by {entry.author.name}
        </Text>
        {entry.author.verified ? <IconRosetteDiscountCheck size={18} aria-label="Verified author" role="img" /> : null}
        <Badge variant="light" color={entry.tier === 'verified' ? 'teal' : 'gray'}>
          {entry.tier}
        </Badge>
        {entry.visibility === 'listed' ? null : <Badge variant="default">{entry.visibility}</Badge>}
        <Text size="sm" c="dimmed">
          {entry.latest?.semVer ?? 'no version yet'} ·{' '}
          {entry.installCount === 1 ? '1 installation' : `${entry.installCount} installations`}
        </Text>
      </Group>
      {entry.blockedReason ? (
        <Alert color="red" title="Blocked by the operator" className="foreign">
          {visibleText(entry.blockedReason)}
        </Alert>
      ) : null}
      {entry.deprecationMessage ? (
        <Alert color="yellow" title="No longer in the catalog" className="foreign">
          {visibleText(entry.deprecationMessage)}
        </Alert>
      ) : null}
    </>
  );
}
