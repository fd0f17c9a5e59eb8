/** Edits the files of a package, saves them as a draft and publishes them. */
import { Skeleton, Stack, Text } from '@mantine/core';
import { lazy, Suspense, useCallback, useEffect, useEffectEvent, useMemo, useRef, useState } from 'react';
import type { TextFile } from '../authoring/package-files.ts';
import { PublishButtons } from '../authoring/publish-buttons.tsx';
import { usePublishing } from '../authoring/use-publishing.ts';
import { type Fault, getFaults, type Place } from './faults.ts';
import { FileTabs } from './file-tabs.tsx';
import { UnsavedGuard } from './unsaved-guard.tsx';

const CodeEditor = lazy(() => import('./code-editor.tsx').then(({ CodeEditor }) => ({ default: CodeEditor })));
const HELP =
  'Tab indents. Escape leaves the editor for the buttons below; Control M (on a Mac Control Shift M) makes Tab leave it. Control S saves the draft.';

interface FilesEditorProps {
  readonly pluginId: string;
  readonly given: readonly TextFile[];
}

export function FilesEditor({ pluginId, given }: FilesEditorProps) {
  const [files, setFiles] = useState(given);
  const [saved, setSaved] = useState(given);
  const [path, setPath] = useState(given.some((file) => file.path === 'index.ts') ? 'index.ts' : given[0]?.path);
  const [faults, setFaults] = useState<readonly Fault[]>([]);
  const [place, setPlace] = useState<Place | null>(null);
  const first = useRef<HTMLInputElement>(null);
  const newest = useRef(files);
  const [wantsSave, setWantsSave] = useState(false);
  const onText = useCallback((of: string, contentText: string) => {
    newest.current = withText(newest.current, of, contentText);
    setFiles(newest.current);
  }, []);
  const onFiles = useCallback((next: readonly TextFile[]) => {
    newest.current = next;
    setFiles(next);
  }, []);
  const dropped = useMemo(() => ({ files }), [files]);
  const publishing = usePublishing({
    pluginId,
    dropped,
    keepsFaults: true,
    onAnswer: (refusal) => {
      setFaults(getFaults(refusal));
      if (refusal === null) setSaved(files);
    },
  });
  const saveDraft = useEffectEvent(() => publishing.draft.mutate());
  const isSaving = publishing.draft.isPending;
  // Saves after the last keystrokes have reached the state, and one save at a time.
  useEffect(() => {
    if (!wantsSave || isSaving || files !== newest.current) return;
    setWantsSave(false);
    saveDraft();
  }, [wantsSave, isSaving, files]);
  return (
    <Stack gap="sm">
      <UnsavedGuard isUnsaved={!isSame(files, saved)} />
      <FileTabs files={files} path={path ?? ''} faults={faults} onPath={setPath} onFiles={onFiles} />
      <Suspense fallback={<Skeleton height={420} aria-label="Loading the editor" />}>
        <CodeEditor
          files={files}
          path={path ?? ''}
          faults={faults}
          place={place}
          onText={onText}
          onSave={() => setWantsSave(true)}
          onLeave={() => first.current?.focus()}
        />
      </Suspense>
      <Text size="xs" c="dimmed">
        {HELP}
      </Text>
      <PublishButtons
        publishing={publishing}
        first={first}
        onPlace={(there) => {
          setPath(there.path);
          setPlace({ ...there });
        }}
      />
    </Stack>
  );
}

/** Returns the same array if nothing changed, so that React does not render again. */
function withText(files: readonly TextFile[], path: string, contentText: string): readonly TextFile[] {
  const at = files.findIndex((file) => file.path === path);
  if (at === -1 || files[at]?.contentText === contentText) return files;
  return files.with(at, { path, contentText });
}

const isSame = (some: readonly TextFile[], others: readonly TextFile[]): boolean =>
  some.length === others.length &&
  some.every(({ path, contentText }) => others.find((other) => other.path === path)?.contentText === contentText);
