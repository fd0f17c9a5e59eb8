/** Publishing: drop a folder or a zip, give it a number, and read what is wrong where it is wrong. */
import { Button, FileButton, Group, Progress, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type DragEvent, useState } from 'react';
import { bodyOf, rest } from '../rest/client.ts';
import { queries } from '../rest/queries.ts';
import { upload } from '../rest/upload.ts';
import { filesOfDrop } from './dropped-folder.ts';
import { type Dropped, readDropped } from './package-files.ts';
import { PublishFaults } from './publish-faults.tsx';

export function PublishForm({ pluginId }: { readonly pluginId: string }) {
  const [semVer, setSemVer] = useState('');
  const [dropped, setDropped] = useState<Dropped | null>(null);
  const [part, setPart] = useState(0);
  const read = useMutation({ mutationFn: readDropped, onSuccess: setDropped });
  const publish = useMutation({
    mutationFn: () => send(pluginId, semVer.trim(), dropped, setPart),
    onSuccess: () => queries.invalidateQueries(),
  });
  const draft = useMutation({
    mutationFn: () => saveDraft(pluginId, dropped),
    onSuccess: () => queries.invalidateQueries(),
  });
  const take = (files: readonly File[]) => {
    publish.reset();
    draft.reset();
    read.mutate(files);
  };
  const error = read.error ?? publish.error ?? draft.error;
  return (
    <Stack>
      <DropPlace onFiles={take} dropped={dropped} />
      <Group align="flex-end">
        <TextInput
          label="Version"
          placeholder="1.0.0"
          value={semVer}
          onChange={(event) => setSemVer(event.currentTarget.value)}
        />
        <Button
          disabled={dropped === null || semVer.trim() === ''}
          loading={publish.isPending}
          onClick={() => publish.mutate()}
        >
          Publish
        </Button>
        <Button
          variant="default"
          disabled={dropped === null || 'zip' in dropped}
          loading={draft.isPending}
          onClick={() => draft.mutate()}
        >
          Save as draft
        </Button>
      </Group>
      {publish.isPending ? <Progress value={part * 100} aria-label="Sent" /> : null}
      <div role="status">
        {publish.isSuccess ? <Text>Published. It cannot be changed any more; a fix is a new version.</Text> : null}
        {draft.data ? <Text>The draft is saved. {draft.data.warnings.join(' ')}</Text> : null}
      </div>
      {error ? <PublishFaults error={error} /> : null}
    </Stack>
  );
}

async function send(
  id: string,
  semVer: string,
  dropped: Dropped | null,
  onProgress: (part: number) => void,
): Promise<void> {
  if (dropped === null) return;
  onProgress(0);
  if ('files' in dropped) {
    const body = { semVer, files: [...dropped.files] };
    await rest.POST('/plugins/{id}/versions', { params: { path: { id } }, body });
    return;
  }
  const form = new FormData();
  // Fields go before the file: the service reads as it comes.
  form.set('semVer', semVer);
  form.set('file', dropped.zip);
  await upload(`/api/plugins/${encodeURIComponent(id)}/versions/zip`, form, onProgress);
}

async function saveDraft(id: string, dropped: Dropped | null) {
  if (dropped === null || 'zip' in dropped) throw new Error('A draft is saved from a folder, not from a zip.');
  const body = { files: [...dropped.files] };
  return bodyOf(rest.POST('/plugins/{id}/draft', { params: { path: { id } }, body }));
}

interface DropProps {
  readonly onFiles: (files: readonly File[]) => void;
  readonly dropped: Dropped | null;
}

function DropPlace({ onFiles, dropped }: DropProps) {
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    void filesOfDrop(event.dataTransfer).then(onFiles);
  };
  return (
    <section className="drop-here" aria-label="Package" onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
      <Text className="foreign">
        {dropped === null ? 'Drop the plugin’s folder or a zip of it here.' : saidOf(dropped)}
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

function saidOf(dropped: Dropped): string {
  if ('zip' in dropped) return `${dropped.zip.name}, ${dropped.zip.size} bytes`;
  return dropped.files.map(({ path }) => path).join(', ');
}
