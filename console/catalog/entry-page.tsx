/** The catalog page of one plugin. */
import { Badge, Grid, Group, Skeleton, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useParams } from '@tanstack/react-router';
import { Suspense } from 'react';
import type { components } from '../../sdk/rest/schema.d.ts';
import { useEntry } from '../rest/installations.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { lazyPart } from '../shell/lazy-part.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PageButton } from '../shell/page-button.tsx';
import { PluginHeader } from '../shell/plugin-header.tsx';
import { PluginWarnings } from '../shell/plugin-warnings.tsx';
import { Section } from '../shell/section.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { IconCheck, IconClock, IconDownload, IconTag } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { DiscoveredList } from './discovered-list.tsx';
import { InstallButton } from './install-button.tsx';
import { ReachList } from './reach-list.tsx';
import { VerifiedIcon } from './verified-icon.tsx';

export type Entry = components['schemas']['CatalogEntry'];
const Readme = lazyPart(() => import('./readme.tsx'), 'Readme');

export function EntryPage() {
  const { slug } = useParams({ from: '/catalog/$slug' });
  const entry = useEntry(slug);
  if (entry.error && !entry.data) return <ErrorAlert isPage error={entry.error} reset={() => void entry.refetch()} />;
  if (!entry.data) return <Skeleton height={240} aria-label="Loading" />;
  const { readme, displayName, reach, discovered } = entry.data;
  return (
    <Stack gap="lg">
      <Head entry={entry.data} />
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Section title="Readme">
            <Suspense fallback={<Skeleton height={160} />}>
              {readme.trim() === '' ? (
                <Text c="dimmed">The readme has no text below its name and description.</Text>
              ) : (
                <Readme text={readme} title={displayName} />
              )}
            </Suspense>
          </Section>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Stack>
            <Section title="What it can access">
              <ReachList reach={reach} />
            </Section>
            {discovered ? (
              <Section title="What it provides">
                <DiscoveredList discovered={discovered} />
              </Section>
            ) : null}
            <Section title="Versions">
              <Versions of={entry.data} />
            </Section>
          </Stack>
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

function Versions({ of: { versions, versionsTruncated, latest } }: { readonly of: Entry }) {
  if (versions.length === 0) return <Text c="dimmed">No version is published yet.</Text>;
  return (
    <>
      {versions.map(({ versionId, semVer, publishedAt }) => (
        <Group key={versionId} justify="space-between">
          <Group gap="xs">
            <Monospace>{semVer}</Monospace>
            {versionId === latest?.versionId ? <Badge variant="light">newest</Badge> : null}
          </Group>
          <Text size="xs" c="dimmed">
            <Timestamp at={publishedAt} />
          </Text>
        </Group>
      ))}
      {versionsTruncated ? <Text c="dimmed">Older versions are not listed.</Text> : null}
    </>
  );
}

function Head({ entry }: { readonly entry: Entry }) {
  return (
    <>
      <PluginHeader of={entry} iconSize={64} actions={<Action entry={entry} />}>
        <Text className="foreign" mt={2}>
          {escapeText(entry.description)}
        </Text>
        <Meta entry={entry} />
      </PluginHeader>
      <PluginWarnings of={entry} />
    </>
  );
}

function Action({ entry }: { readonly entry: Entry }) {
  const [isOpen, { open, close }] = useDisclosure(false);
  // The open dialog stays, with what was typed in it: the plugin may be installed although its request got no response.
  if (entry.installationId === null || isOpen)
    return <InstallButton entry={entry} isOpen={isOpen} onOpen={open} onClose={close} />;
  return (
    <PageButton
      to="/installations/$id"
      params={{ id: entry.installationId }}
      size="md"
      variant="default"
      leftSection={<IconCheck size={18} stroke={2} />}
    >
      Open installation
    </PageButton>
  );
}

function Meta({ entry }: { readonly entry: Entry }) {
  const { author, tier, visibility, latest, installCount, updatedAt } = entry;
  return (
    <Group gap="md" mt={8} fz="sm" c="dimmed" style={{ rowGap: 4 }}>
      <span className="with-icon foreign">
        by {escapeText(author.name)}
        {author.verified ? <VerifiedIcon size={16} /> : null}
      </span>
      <span className="with-icon">
        <IconTag size={15} stroke={1.7} />
        <span>{latest?.semVer ?? 'no version yet'}</span>
      </span>
      <span className="with-icon">
        <IconDownload size={15} stroke={1.7} />
        <span>{installCount === 1 ? '1 installation' : `${installCount} installations`}</span>
      </span>
      <span className="with-icon">
        <IconClock size={15} stroke={1.7} />
        <span>
          updated <Timestamp at={updatedAt} />
        </span>
      </span>
      <Badge variant="light" color={tier === 'verified' ? 'teal' : 'gray'}>
        {tier}
      </Badge>
      {visibility === 'listed' ? null : <Badge variant="default">{visibility}</Badge>}
    </Group>
  );
}
