/** The form that publishes a dropped folder or zip. */
import { Button, FileButton, Group, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type DragEvent, type MouseEvent, useState } from 'react';
import { formatBytes } from '../style/format-bytes.ts';
import { IconPackageImport } from '../style/icons.tsx';
import { readDroppedFiles } from './dropped-files.ts';
import { type Dropped, readDropped } from './package-files.ts';
import { PublishButtons } from './publish-buttons.tsx';
import { PublishFaults } from './publish-faults.tsx';
import { usePublishing } from './use-publishing.ts';

export function PublishForm({ pluginId }: { readonly pluginId: string }) {
  const [dropped, setDropped] = useState<Dropped | null>(null);
  const publishing = usePublishing({
    pluginId,
    dropped,
    // As if there were no draft: the folder was not made from it, so the user is asked before it replaces one.
    madeFrom: null,
    // The files were read when they were chosen. The next version, which cannot be changed either, must not get these old ones.
    onAnswer: ({ refusal, sent }) => {
      if (refusal === null) setDropped((now) => (now === sent ? null : now));
    },
  });
  const read = useMutation({
    // One after the other, so that the package that was chosen last stays.
    scope: { id: `read package of ${pluginId}` },
    mutationFn: async (files: ChosenFiles) => readDropped(await files),
    onSuccess: setDropped,
  });
  return (
    <Stack>
      <DropPlace onFiles={(files) => read.mutate(files)} dropped={dropped} />
      {read.error ? <PublishFaults error={read.error} /> : null}
      <PublishButtons publishing={publishing} />
    </Stack>
  );
}

type ChosenFiles = readonly File[] | Promise<readonly File[]>;
interface DropProps {
  readonly onFiles: (files: ChosenFiles) => void;
  readonly dropped: Dropped | null;
}

function DropPlace({ onFiles, dropped }: DropProps) {
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    onFiles(readDroppedFiles(event.dataTransfer));
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
        <FileButton
          onChange={(files) => files.length > 0 && onFiles(files)}
          multiple
          inputProps={{ webkitdirectory: '', 'aria-label': 'Folder', onClick: clearChoice } as object}
        >
          {(props) => (
            <Button {...props} variant="default" size="xs">
              Choose a folder
            </Button>
          )}
        </FileButton>
        <FileButton
          onChange={(file) => file && onFiles([file])}
          accept="application/zip,.zip"
          inputProps={{ 'aria-label': 'Zip', onClick: clearChoice }}
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

/** Without this, the browser reports no change when the user chooses the same folder or zip again after editing it. */
function clearChoice({ currentTarget }: MouseEvent<HTMLInputElement>): void {
  currentTarget.value = '';
}

function describePackage(dropped: Dropped): string {
  if ('zip' in dropped) return `${dropped.zip.name}, ${formatBytes(dropped.zip.size)}`;
  return dropped.files.map(({ path }) => path).join(', ');
}
