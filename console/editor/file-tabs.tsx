/** Selects, adds and removes files. */
import { Button, Group, NativeSelect, TextInput } from '@mantine/core';
import { useInputState } from '@mantine/hooks';
import type { TextFile } from '../authoring/package-files.ts';
import { ActionForm } from '../shell/action-form.tsx';
import type { Fault } from './faults.ts';

interface Props {
  readonly files: readonly TextFile[];
  readonly path: string;
  readonly faults: readonly Fault[];
  readonly onPath: (path: string) => void;
  readonly onFiles: (files: readonly TextFile[]) => void;
}
/** Every package needs these files. */
const REQUIRED = ['readme.md', 'index.ts'];

export function FileTabs({ files, path, faults, onPath, onFiles }: Props) {
  const [added, setAdded] = useInputState('');
  const name = added.trim();
  const add = () => {
    if (!files.some((file) => file.path === name)) onFiles([...files, { path: name, contentText: '' }]);
    onPath(name);
    setAdded('');
  };
  const remove = () => {
    onFiles(files.filter((file) => file.path !== path));
    onPath('index.ts');
  };
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
      <Button variant="default" disabled={REQUIRED.includes(path)} onClick={remove}>
        Remove
      </Button>
      <ActionForm onSubmit={add}>
        <Group align="flex-end" gap="xs" wrap="nowrap">
          <TextInput label="New file" placeholder="words/greeting.ts" value={added} onChange={setAdded} />
          <Button type="submit" variant="default" disabled={name === ''}>
            Add
          </Button>
        </Group>
      </ActionForm>
    </Group>
  );
}
