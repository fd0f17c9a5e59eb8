/** The page of one of the account's own plugins. */
import { Code, Group, Skeleton, Stack, Text } from '@mantine/core';
import { useParams } from '@tanstack/react-router';
import { DiscoveredList } from '../catalog/discovered-list.tsx';
import { countPublished, type Plugin, usePlugin } from '../rest/plugins.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { PluginHeader } from '../shell/plugin-header.tsx';
import { PluginWarnings } from '../shell/plugin-warnings.tsx';
import { Section } from '../shell/section.tsx';
import { StatusDot } from '../shell/status-dot.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { ListingButtons } from './listing-buttons.tsx';
import { PublishForm } from './publish-form.tsx';
import { RenameButton } from './rename-button.tsx';
import { VersionTable } from './version-table.tsx';

export function PluginPage() {
  const { id } = useParams({ from: '/plugins/$id' });
  const found = usePlugin(id);
  if (found.error) return <ErrorAlert isPage error={found.error} reset={found.refetch} />;
  if (!found.data) return <Skeleton height={240} aria-label="Loading" />;
  const plugin = found.data;
  return (
    <Stack>
      <Head plugin={plugin} />
      <PluginWarnings of={plugin} />
      <Section title="Publish">
        <PublishForm pluginId={plugin.id} />
      </Section>
      {plugin.draft ? (
        <Section title="Draft">
          <Text size="sm">
            Saved <Timestamp at={plugin.draft.savedAt} />, source <Code>{plugin.draft.sourceSha256.slice(0, 12)}</Code>.
            Your installations that follow the draft run it.
          </Text>
          <DiscoveredList discovered={plugin.draft.discovered} />
        </Section>
      ) : null}
      {plugin.rollbacks.length > 0 ? (
        <Section title="Rolled back">
          <Rollbacks plugin={plugin} />
        </Section>
      ) : null}
      <Section title="Versions">
        <VersionTable plugin={plugin} />
      </Section>
    </Stack>
  );
}

const CAUSES: Record<Plugin['rollbacks'][number]['cause'], string> = {
  crashed: 'its process ended',
  memory: 'it exceeded its memory limit',
  killed: 'it did not answer in time',
  not_started: 'it did not start',
};

function Rollbacks({ plugin: { rollbacks } }: { readonly plugin: Plugin }) {
  return (
    <>
      <Text size="sm" c="dimmed">
        These versions ended three times in their first ten minutes, so the installations returned to the version
        before.
      </Text>
      {rollbacks.map(({ versionId, semVer, cause, count, lastAt }) => (
        <Text key={`${versionId} ${cause}`} size="sm">
          <Code>{semVer ?? 'draft'}</Code> in{' '}
          <span>{`${count === 1 ? '1 installation' : `${count} installations`}: ${CAUSES[cause]}`}</span>. Last{' '}
          <Timestamp at={lastAt} />.
        </Text>
      ))}
    </>
  );
}

function Head({ plugin }: { readonly plugin: Plugin }) {
  const { id, slug, visibility } = plugin;
  return (
    <PluginHeader
      of={plugin}
      actions={
        <Group gap="xs">
          {countPublished(plugin) > 0 ? null : <RenameButton plugin={plugin} />}
          <ListingButtons plugin={plugin} />
        </Group>
      }
    >
      <Group gap="sm" mt={4} style={{ rowGap: 2 }}>
        <StatusDot tone={visibility === 'listed' ? 'good' : 'quiet'}>{visibility}</StatusDot>
        <PageLink to="/catalog/$slug" params={{ slug }} size="sm">
          View in the catalog
        </PageLink>
        <PageLink to="/plugins/$id/edit" params={{ id }} size="sm">
          Edit files
        </PageLink>
      </Group>
    </PluginHeader>
  );
}
