/** Lists the versions of a plugin, the highest number first. */
import { Button, Code, Group, Text } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { rest } from '../rest/client.ts';
import { countPublished, type Plugin } from '../rest/plugins.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { StatusDot } from '../shell/status-dot.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { formatBytes } from '../style/format-bytes.ts';
import { VersionFiles } from './version-files.tsx';

type VersionNumber = Plugin['leftOutVersions'][number];

const TITLES = ['Version', 'Status', 'Published', 'Source', 'Size', 'New access', 'Actions'];
const HASH_SHOWN = 12;

export function VersionTable({ plugin }: { readonly plugin: Plugin }) {
  const [opened, setOpened] = useState<string | null>(null);
  if (plugin.versions.length === 0)
    return <Text c="dimmed">No version is published. Drop the plugin’s folder above to publish one.</Text>;
  const hasOne = countPublished(plugin) === 1;
  const leftOut = plugin.leftOutVersions.length;
  const describeVersion = (version: VersionNumber, details: readonly ReactNode[]) => ({
    key: version.id,
    cells: [
      <Monospace key="version">{version.semVer}</Monospace>,
      <StatusDot key="status" tone={version.status === 'published' ? 'good' : 'quiet'}>
        {version.status}
      </StatusDot>,
      ...details,
      <Group key="actions" gap="xs" wrap="nowrap">
        <Button
          size="xs"
          variant="default"
          aria-label={`Files of ${version.semVer}`}
          onClick={() => setOpened(version.id)}
        >
          Files
        </Button>
        {version.status === 'published' && !hasOne ? <Yank pluginId={plugin.id} {...version} /> : null}
      </Group>,
    ],
  });
  const rows = [
    ...plugin.versions.map((version) => describeVersion(version, describeDetails(version))),
    ...plugin.leftOutVersions.map((version) => describeVersion(version, NO_DETAILS)),
  ];
  return (
    <>
      {hasOne ? (
        <Text size="sm" c="dimmed">
          A plugin keeps one published version. To yank this one, publish another first.
        </Text>
      ) : null}
      {leftOut > 0 ? (
        <Text size="sm" c="dimmed">
          The details of all versions are too large for one response:{' '}
          {leftOut === 1 ? 'the lowest version number is' : `the ${leftOut} lowest version numbers are`} listed without
          them.
        </Text>
      ) : null}
      <DataTable label="Versions" titles={TITLES} rows={rows} numeric={['Size']} />
      <Dialog title="Files" opened={opened !== null} onClose={() => setOpened(null)}>
        {opened === null ? null : <VersionFiles pluginId={plugin.id} versionId={opened} />}
      </Dialog>
    </>
  );
}

const describeDetails = ({ createdAt, sourceSha256, sizeBytes, addedCapabilities }: Plugin['versions'][number]) => [
  <Timestamp key="published" at={createdAt} />,
  <Code key="source" title={sourceSha256}>
    {sourceSha256.slice(0, HASH_SHOWN)}
  </Code>,
  formatBytes(sizeBytes),
  <Monospace key="access">{addedCapabilities.join(', ') || 'none'}</Monospace>,
];
const NO_DETAILS = ['', '', '', ''];

function Yank({ pluginId, id, semVer }: { readonly pluginId: string; readonly id: string; readonly semVer: string }) {
  const params = { path: { id: pluginId, versionId: id } };
  return (
    <ConfirmButton
      label={`Yank ${semVer}`}
      short="Yank"
      run={() => rest.POST('/plugins/{id}/versions/{versionId}/yank', { params })}
      done={`${semVer} is yanked`}
    >
      <Text>
        {semVer} can no longer be installed. Installations that follow the newest version and run {semVer} move to the
        newest remaining version; pinned installations keep it. The number cannot be reused.
      </Text>
    </ConfirmButton>
  );
}
