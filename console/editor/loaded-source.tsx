/** Says what the files in the editor were made from, and loads others. */
import { Alert, Group, NativeSelect, Text } from '@mantine/core';
import { useState } from 'react';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { DRAFT, findNewer, listSources, type Source, type Sources } from './source.ts';

const LOSS =
  'They replace all files in the editor: changes that are not in the draft are lost. The saved draft itself stays until you save.';

interface LoadedSourceProps {
  readonly plugin: Sources;
  /** Null: the template of a new plugin. */
  readonly source: Source | null;
  /** What the files were made from: for a saved draft, what was loaded before. */
  readonly base: Source | null;
  /** Replaces the files in the editor. */
  readonly onLoad: (id: string) => Promise<void>;
}

export function LoadedSource(props: LoadedSourceProps) {
  const { plugin, source, base } = props;
  const newer = findNewer(plugin, base);
  const hasOthers = listSources(plugin).some(({ id }) => id !== source?.id);
  return (
    <>
      <Group gap="sm">
        <Text size="sm" role="status">
          <Origin source={source} />
          {newer ? ` ${newer.semVer} was published after ${source === base ? 'it' : 'what it was made from'}.` : null}
        </Text>
        {hasOthers ? <LoadButton {...props} /> : null}
      </Group>
      {newer ? <NewerNotice {...props} newer={newer} /> : null}
    </>
  );
}

function NewerNotice({ source, newer, onLoad }: LoadedSourceProps & { readonly newer: Source }) {
  return (
    <Alert color="yellow" title={`These files are older than ${newer.semVer}`}>
      <Group>
        <Text size="sm">
          A version that you publish from them lacks what was changed in {newer.semVer}. Load {newer.semVer}, or go on
          with {source?.semVer === null ? 'the draft' : 'these files'}.
        </Text>
        <ConfirmButton label={`Load ${newer.semVer}`} run={() => onLoad(newer.id)} done={`${newer.semVer} is loaded`}>
          <Text>{LOSS}</Text>
        </ConfirmButton>
      </Group>
    </Alert>
  );
}

function Origin({ source }: Pick<LoadedSourceProps, 'source'>) {
  if (source === null) return 'From the template of new plugins.';
  if (source.semVer === null)
    return (
      <>
        The draft, saved <Timestamp at={source.at} />.
      </>
    );
  return (
    <>
      From {source.semVer}, published <Timestamp at={source.at} />.
    </>
  );
}

const getName = ({ semVer }: Source): string => semVer ?? 'The draft';

function LoadButton({ plugin, source, onLoad }: LoadedSourceProps) {
  const sources = listSources(plugin);
  const proposed = sources.find(({ id }) => id !== source?.id);
  /** Not proposed again while the dialog is open: another tab may save a draft, or publish, or yank what was chosen. */
  const [chosen, setChosen] = useState<Source | null>(null);
  const selected = chosen ?? proposed;
  if (!selected) return null;
  const isOffered = sources.some(({ id }) => id === selected.id);
  return (
    <ConfirmButton
      label="Load other files"
      onOpen={() => setChosen(proposed ?? null)}
      run={() => onLoad(selected.id)}
      done={selected.id === DRAFT ? 'The draft is loaded' : `${selected.semVer} is loaded`}
    >
      <NativeSelect
        label="Draft or version"
        value={selected.id}
        onChange={(event) => setChosen(sources.find(({ id }) => id === event.currentTarget.value) ?? selected)}
        data={(isOffered ? sources : [selected, ...sources]).map((one) => ({ value: one.id, label: getName(one) }))}
      />
      <Text>{LOSS}</Text>
    </ConfirmButton>
  );
}
