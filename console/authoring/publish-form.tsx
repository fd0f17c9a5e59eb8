/** The form that publishes a dropped folder or zip. */
import { Button, FileButton, Group, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type DragEvent, useState } from 'react';
import { formatBytes } from '../style/format-bytes.ts';
import { IconPackageImport } from '../style/icons.tsx';
import { readDroppedFiles } from './dropped-files.ts';
import { type Dropped, readDropped } from './package-files.ts';
import { PublishButtons } from './publish-buttons.tsx';
import { PublishFaults } from './publish-faults.tsx';
import { usePublishing } from './use-publishing.ts';

export function PublishForm({ pluginId }: { readonly pluginId: string }) {
  const [dropped, setDropped] = useState<Dropped | null>(null);
  const publishing = usePublishing({ pluginId, dropped });
  const read = useMutation({ mutationFn: readDropped, onSuccess: setDropped });
  return (
    <Stack>
      <DropPlace onFiles={(files) => read.mutate(files)} dropped={dropped} />
      {read.error ? <PublishFaults error={read.error} /> : null}
      <PublishButtons publishing={publishing} />
    </Stack>
  );
}

interface DropProps {
  readonly onFiles: (files: readonly File[]) => void;
  readonly dropped: Dropped | null;
}

function DropPlace({ onFiles, dropped }: DropProps) {
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    void readDroppedFiles(event.dataTransfer).then(onFiles);
  };
  return (
    <section className="drop-here" aria-label="Package" onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
      <span className="nothing-icon">
        <IconPackageImport size={22} stroke={1.6} />
      </span>
      <Text className="foreign" fw={500}>
        {dropped === null ? 'Drop the plugin’s folder or a zip of it here.' : describePackage(dropped)}
      </Text>
      <Group gap="xs">
        <FileButton onChange={onFiles} multiple inputProps={{ webkitdirectory: '', 'aria-label': 'Folder' } as object}>
          {(props) => (
            <Button {...props} variant="default" size="xs">
              Choose a folder
            </Button>
          )}
        </FileButton>
        <FileButton
          onChange={(file) => onFiles(file ? [file] : [])}
          accept="application/zip,.zip"
          inputProps={{ 'aria-label': 'Zip' }}
        >
          {(props) => (
            <Button {...props} variant="default" size="xs">
              Choose a zip
            </Button>
          )}
        </FileButton>
      </Group>
    </section>
  );
}

function describePackage(dropped: Dropped): string {
  if ('zip' in dropped) return `${dropped.zip.name}, ${formatBytes(dropped.zip.size)}`;
  return dropped.files.map(({ path }) => path).join(', ');
}
