/** Shows the source files of a version. */

import { Button, Group, NativeSelect, Skeleton, Stack, Text } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { readBody, rest } from '../rest/client.ts';
import { readVersionFiles } from '../rest/version-files.ts';
import { downloadFile } from '../shell/download-file.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { escapeText } from '../style/untrusted-text.ts';

interface Props {
  readonly pluginId: string;
  readonly versionId: string;
}

export function VersionFiles({ pluginId, versionId }: Props) {
  const [path, setPath] = useState('index.ts');
  const found = useQuery({
    queryKey: ['plugins', pluginId, 'files', versionId],
    queryFn: () => readVersionFiles(pluginId, versionId),
    // Also after actions: a version never changes.
    staleTime: 'static',
  });
  if (found.error) return <ErrorAlert error={found.error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeleton height={160} aria-label="Loading" />;
  const file = found.data.files.find((one) => one.path === path) ?? found.data.files[0];
  return (
    <Stack>
      <NativeSelect
        label="File"
        value={file?.path ?? ''}
        onChange={(event) => setPath(event.currentTarget.value)}
        data={found.data.files.map((one) => one.path)}
      />
      {file?.contentText == null ? (
        <Text size="sm">Binary or too long to show, {file?.sizeBytes ?? 0} bytes. “Save files” includes it.</Text>
      ) : (
        <PreformattedText>{escapeText(file.contentText)}</PreformattedText>
      )}
      {found.data.hasMoreFiles && <Text size="sm">This list ends early. “Save files” includes all files.</Text>}
      <Group>
        <ArchiveButton pluginId={pluginId} versionId={versionId} kind="archive" />
        <ArchiveButton pluginId={pluginId} versionId={versionId} kind="agentPlugin" />
      </Group>
    </Stack>
  );
}

const ARCHIVES = {
  archive: { label: 'Save files', path: '/plugins/{id}/versions/{versionId}/archive', name: 'source' },
  agentPlugin: {
    label: 'Save as agent plugin',
    path: '/plugins/{id}/versions/{versionId}/agent-plugin',
    name: 'agent-plugin',
  },
} as const;

/** Downloads the version, as its source files or in the Agent Plugins format. */
function ArchiveButton({ pluginId, versionId, kind }: Props & { readonly kind: keyof typeof ARCHIVES }) {
  const { label, path, name } = ARCHIVES[kind];
  const save = useMutation({
    mutationFn: async () => {
      const params = { path: { id: pluginId, versionId } };
      const archive = await readBody(rest.GET(path, { params, parseAs: 'blob' }));
      downloadFile(`${name}-${versionId}.zip`, archive);
    },
  });
  return (
    <>
      <Button variant="default" loading={save.isPending} onClick={() => save.mutate()}>
        {label}
      </Button>
      {save.error && <ErrorAlert error={save.error} />}
    </>
  );
}
