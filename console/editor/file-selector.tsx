/** Selects, adds and removes files. */
import { Button, Group, NativeSelect, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { DistinctPaths, validatePath } from '../../sdk/contract/package-paths.ts';
import type { TextFile } from '../authoring/package-files.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import type { Fault } from './faults.ts';

interface Props {
  readonly files: readonly TextFile[];
  readonly path: string;
  readonly faults: readonly Fault[];
  readonly onPath: (path: string) => void;
  readonly onFiles: (files: readonly TextFile[]) => void;
  /** Selects a file, and moves the focus into it. */
  readonly onOpen: (path: string) => void;
}
/** Every package needs these files. */
const REQUIRED = ['readme.md', 'index.ts'];

export function FileSelector({ files, path, faults, onPath, onFiles, onOpen }: Props) {
  const wrong = new Set(faults.map((fault) => fault.path));
  return (
    <Group align="flex-end" gap="xs">
      <NativeSelect
        label="File"
        style={{ flex: '1 1 10rem' }}
        value={path}
        onChange={(event) => onPath(event.currentTarget.value)}
        data={files.map((file) => ({ value: file.path, label: wrong.has(file.path) ? `${file.path} (!)` : file.path }))}
      />
      <RemoveFile files={files} path={path} onFiles={onFiles} onOpen={onOpen} />
      <NewFile files={files} onFiles={onFiles} onOpen={onOpen} />
    </Group>
  );
}

function RemoveFile({ files, path, onFiles, onOpen }: Pick<Props, 'files' | 'path' | 'onFiles' | 'onOpen'>) {
  const remove = () => {
    onFiles(files.filter((file) => file.path !== path));
    onOpen('index.ts');
  };
  const isRequired = REQUIRED.includes(path);
  const isEmpty = files.find((file) => file.path === path)?.contentText === '';
  if (isEmpty || isRequired)
    return (
      <Button variant="default" disabled={isRequired} onClick={remove}>
        Remove
      </Button>
    );
  return (
    <ConfirmButton
      label="Remove"
      title={`Remove ${escapeText(path)}`}
      run={async () => remove()}
      done={`${escapeText(path)} is removed from the editor`}
      button={{ size: 'sm' }}
    >
      <Text>Removes the file from the editor. The saved draft keeps it until you save.</Text>
    </ConfirmButton>
  );
}

function NewFile({ files, onFiles, onOpen }: Pick<Props, 'files' | 'onFiles' | 'onOpen'>) {
  const [added, setAdded] = useState('');
  const [fault, setFault] = useState<string | null>(null);
  const name = added.trim();
  const change = (text: string) => {
    setAdded(text);
    setFault(null);
  };
  const add = () => {
    const isThere = files.some((file) => file.path === name);
    const found = isThere ? null : findFault(files, name);
    if (found !== null) {
      setFault(`The path ${found}.`);
      return;
    }
    if (!isThere) onFiles([...files, { path: name, contentText: '' }]);
    onOpen(name);
    change('');
  };
  return (
    <ActionForm onSubmit={add}>
      <Group align="flex-end" gap="xs" wrap="nowrap">
        <TextInput
          label="New file"
          placeholder="words/greeting.ts"
          miw={0}
          value={added}
          onChange={(event) => change(event.currentTarget.value)}
          error={fault}
          // Above the field: the button stays beside it.
          inputWrapperOrder={['label', 'error', 'input']}
        />
        <Button type="submit" variant="default" flex="none" disabled={name === ''}>
          Add
        </Button>
      </Group>
    </ActionForm>
  );
}

/** Returns why a package with these files cannot have another one of this name, as the end of a sentence; null: it can. */
function findFault(files: readonly TextFile[], name: string): string | null {
  const distinct = new DistinctPaths();
  for (const { path } of files) distinct.add({ path, isFolder: false });
  return validatePath(name) ?? distinct.add({ path: name, isFolder: false });
}
