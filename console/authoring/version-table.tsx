/** The versions of a plugin with their hashes, the newest first. */
import { Button, Code, Group, Text } from '@mantine/core';
import { useState } from 'react';
import { useAction } from '../rest/action.ts';
import { rest } from '../rest/client.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { HeadedTable } from '../shell/headed-table.tsx';
import { Moment } from '../shell/moment.tsx';
import { Mono } from '../shell/mono.tsx';
import { StateMark } from '../shell/state-mark.tsx';
import { sizeOf } from '../style/size.ts';
import type { Plugin } from './plugin-page.tsx';
import { VersionFiles } from './version-files.tsx';

const TITLES = ['Version', 'Status', 'Published', 'Source', 'Size', 'New access', 'Actions'];
const HASH_SHOWN = 12;

export function VersionTable({ plugin }: { readonly plugin: Plugin }) {
  const [opened, setOpened] = useState<string | null>(null);
  if (plugin.versions.length === 0)
    return <Text c="dimmed">None yet. Drop the plugin’s folder above to publish the first.</Text>;
  const rows = plugin.versions.map((version) => ({
    key: version.id,
    cells: [
      <Mono key="version">{version.semVer}</Mono>,
      <StateMark key="status" tone={version.status === 'published' ? 'good' : 'quiet'}>
        {version.status}
      </StateMark>,
      <Moment key="published" at={version.createdAt} />,
      <Code key="source" title={version.sourceSha256}>
        {version.sourceSha256.slice(0, HASH_SHOWN)}
      </Code>,
      sizeOf(version.sizeBytes),
      <Mono key="access">{version.addedCapabilities.join(', ') || 'none'}</Mono>,
      <Group key="actions" gap="xs" wrap="nowrap">
        <Button size="xs" variant="default" onClick={() => setOpened(version.id)}>
          Files
        </Button>
        {version.status === 'published' ? <Yank pluginId={plugin.id} {...version} /> : null}
      </Group>,
    ],
  }));
  return (
    <>
      <HeadedTable label="Versions" titles={TITLES} rows={rows} numeric={['Size']} />
      <Dialog title="Files" opened={opened !== null} onClose={() => setOpened(null)}>
        {opened === null ? null : <VersionFiles pluginId={plugin.id} versionId={opened} />}
      </Dialog>
    </>
  );
}

function Yank({ pluginId, id, semVer }: { readonly pluginId: string; readonly id: string; readonly semVer: string }) {
  const yank = useAction<void, unknown>(
    () => rest.POST('/plugins/{id}/versions/{versionId}/yank', { params: { path: { id: pluginId, versionId: id } } }),
    `${semVer} is yanked`,
  );
  return (
    <ConfirmButton label="Yank" title={`Yank ${semVer}`} onConfirm={() => yank.mutate()} button={{ size: 'xs' }}>
      <Text>
        Nobody can install {semVer} any more, and who follows the newest version moves to the newest that is left. Who
        has pinned it keeps running it. The number is never free again.
      </Text>
    </ConfirmButton>
  );
}
