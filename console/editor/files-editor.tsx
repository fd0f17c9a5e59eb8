/** Edits the files of a package, saves them as a draft and publishes them. */
import { Alert, Group, Skeleton, Stack, Text } from '@mantine/core';
import { useHotkeys } from '@mantine/hooks';
import { type ReactNode, Suspense, useCallback, useEffect, useEffectEvent, useMemo, useRef, useState } from 'react';
import { hasSameFiles, type TextFile } from '../authoring/package-files.ts';
import { PublishButtons } from '../authoring/publish-buttons.tsx';
import { usePublishing } from '../authoring/use-publishing.ts';
import { usePlugin } from '../rest/plugins.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { lazyPart } from '../shell/lazy-part.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { UnsavedGuard } from '../shell/unsaved-guard.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { CompilerErrors } from './compiler-errors.tsx';
import { findBase, rememberBase } from './draft-base.ts';
import { type EditablePackage, readEditablePackage } from './editable-package.ts';
import { type Fault, getFaults, type Place } from './faults.ts';
import { FileSelector } from './file-selector.tsx';
import { forgetFiles, type OpenCopy, omitStored, openCopy } from './kept-files.ts';
import { LoadedSource } from './loaded-source.tsx';
import { DRAFT, type Source } from './source.ts';
import { useKeptFiles } from './use-kept-files.ts';

const CodeEditor = lazyPart(() => import('./code-editor.tsx'), 'CodeEditor');
const HELP =
  'Tab indents. Escape leaves the editor for the buttons below; Control M (on a Mac Control Shift M) makes Tab leave it. Control S saves the draft.';

interface FilesEditorProps {
  readonly pluginId: string;
  readonly stored: EditablePackage;
}

/** Starts with the unsaved files that this browser kept, if there are any. */
export function FilesEditor({ pluginId, stored }: FilesEditorProps) {
  const [copy, setCopy] = useState<OpenCopy | null>(null);
  /** What the user loaded instead. */
  const [{ loads, chosen }, setLoaded] = useState<Loaded>({ loads: 0, chosen: null });
  const open = useEffectEvent((opened: OpenCopy) => setCopy(omitStored(opened, stored.files)));
  useEffect(() => {
    const closing = new AbortController();
    void openCopy(pluginId, closing.signal).then((opened) => {
      if (!closing.signal.aborted) open(opened);
    });
    return () => closing.abort();
  }, [pluginId]);
  if (copy === null) return <Skeleton height={420} aria-label="Loading the editor" />;
  const { key, kept } = copy;
  const discard = () => {
    forgetFiles(key);
    setCopy({ key, kept: null });
  };
  const load = async (sourceId: string) => {
    const other = await readEditablePackage(pluginId, sourceId);
    setLoaded({ loads: loads + 1, chosen: other });
    discard();
  };
  const given = chosen ?? stored;
  return (
    <EditedFiles
      key={`${loads} ${kept?.keptAt ?? 'stored'}`}
      pluginId={pluginId}
      copyKey={key}
      given={given}
      // An older console did not keep all of it.
      start={
        kept === null
          ? { ...given, base: findBase(pluginId, given.source) }
          : {
              draftSha256: given.draftSha256,
              source: given.source,
              base: kept.source === undefined ? given.source : kept.source,
              ...kept,
            }
      }
      onLoad={load}
    >
      {kept === null ? null : <KeptNotice keptAt={kept.keptAt} onDiscard={discard} />}
    </EditedFiles>
  );
}

interface Loaded {
  readonly loads: number;
  /** Null: nothing yet. */
  readonly chosen: EditablePackage | null;
}

function KeptNotice({ keptAt, onDiscard }: { readonly keptAt: number; readonly onDiscard: () => void }) {
  return (
    <Alert color="yellow" title="These are your unsaved changes" role="status">
      <Group>
        <Text size="sm">
          This browser kept them <Timestamp at={new Date(keptAt).toISOString()} />. They are not in the draft.
        </Text>
        <ConfirmButton
          label="Discard them"
          title="Discard unsaved changes?"
          run={async () => onDiscard()}
          done="The unsaved changes are discarded"
        >
          <Text>
            All changes in this editor that are not in the draft are lost, also those that you typed since you opened
            the page.
          </Text>
        </ConfirmButton>
      </Group>
    </Alert>
  );
}

function LeftOutNotice({ paths }: { readonly paths: readonly string[] }) {
  return (
    <Alert color="yellow" title="Some files are not text, or too long">
      <Text size="sm" className="foreign">
        A draft can have text files only, and this editor opens files of at most 1 MiB. Neither the draft nor a version
        that you publish here includes {escapeText(paths.join(', '))}. To include them, publish a zip.
      </Text>
    </Alert>
  );
}

interface EditedFilesProps {
  readonly pluginId: string;
  /** Where this editor keeps what is unsaved. */
  readonly copyKey: string;
  /** The files as they are stored. */
  readonly given: Pick<EditablePackage, 'files' | 'leftOutFiles'>;
  readonly start: Pick<EditablePackage, 'files' | 'source' | 'draftSha256'> & { readonly base: Source | null };
  readonly onLoad: (sourceId: string) => Promise<void>;
  /** Shown while something is unsaved, until the first save: what is unsaved afterwards is not what this browser had kept. */
  readonly children: ReactNode;
}

function EditedFiles({ pluginId, copyKey, given, start, onLoad, children }: EditedFilesProps) {
  const { data: plugin } = usePlugin(pluginId);
  const [files, setFiles] = useState(start.files);
  const [source, setSource] = useState(start.source);
  /** What the files were made from. Saving them as the draft does not bring them up to date. */
  const [base, setBase] = useState(start.base);
  const [saved, setSaved] = useState(given.files);
  const [leftOut, setLeftOut] = useState(given.leftOutFiles);
  const [hasSaved, setHasSaved] = useState(false);
  const [path, setPath] = useState(files.some((file) => file.path === 'index.ts') ? 'index.ts' : files[0]?.path);
  const [refused, setRefused] = useState<Refused>({ faults: [], files: [] });
  const [errors, setErrors] = useState<readonly Fault[]>([]);
  const [place, setPlace] = useState<Place | null>(null);
  const first = useRef<HTMLInputElement>(null);
  const newest = useRef(files);
  const [wantsSave, setWantsSave] = useState(false);
  const isUnsaved = !hasSameFiles(files, saved);
  const onPlace = (there: Place) => {
    setPath(there.path);
    setPlace({ ...there });
  };
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
    madeFrom: start.draftSha256,
    madeFromVersion: base?.semVer ?? null,
    keepsFaults: true,
    onAnswer: ({ refusal, sent, source: storedAs }) => {
      setRefused({ faults: getFaults(refusal), files: sent !== null && 'files' in sent ? sent.files : [] });
      if (storedAs === null || sent === null || !('files' in sent)) return;
      setSource(storedAs);
      setSaved(sent.files);
      setHasSaved(true);
      if (storedAs.id === DRAFT) {
        rememberBase(pluginId, { draftSha256: storedAs.sourceSha256, base });
        return;
      }
      setBase(storedAs);
      // The next version is compared with this one, which lacks them.
      setLeftOut([]);
    },
  });
  const keep = useKeptFiles(
    copyKey,
    { files, isUnsaved, source: base, draftSha256: publishing.newestDraft ?? null },
    () => (hasSameFiles(newest.current, saved) ? null : newest.current),
  );
  const saveDraft = useEffectEvent(() => publishing.draft.mutate({ sent: dropped }));
  const isSaving = publishing.draft.isPending;
  // Saves after the last keystrokes have reached the state, and one save at a time.
  useEffect(() => {
    if (!wantsSave || isSaving || files !== newest.current) return;
    setWantsSave(false);
    saveDraft();
  }, [wantsSave, isSaving, files]);
  useHotkeys([['mod+S', () => setWantsSave(true)]], [], true);
  return (
    <Stack gap="sm">
      <UnsavedGuard
        isUnsaved={isUnsaved}
        keep={keep}
        kept="Your changes are neither in the draft nor published. This browser keeps them and offers them when you open this page again. To run them, stay and save them as a draft."
      >
        Your changes are neither in the draft nor published, and this browser has no room to keep them: they are lost if
        you leave. Stay and save them as a draft.
      </UnsavedGuard>
      {isUnsaved && !hasSaved ? children : null}
      {plugin ? <LoadedSource plugin={plugin} source={source} base={base} onLoad={onLoad} /> : null}
      {leftOut.length > 0 ? <LeftOutNotice paths={leftOut} /> : null}
      <FileSelector
        files={files}
        path={path ?? ''}
        faults={[...refused.faults, ...errors]}
        onPath={(next) => {
          setPath(next);
          // Otherwise, choosing the file of the last place would move the focus out of the list.
          setPlace(null);
        }}
        onFiles={onFiles}
        onOpen={(opened) => onPlace({ path: opened, line: 1, column: 1 })}
      />
      <Suspense fallback={<Skeleton height={420} aria-label="Loading the editor" />}>
        <CodeEditor
          files={files}
          path={path ?? ''}
          faults={refused.faults}
          place={place}
          onText={onText}
          onErrors={setErrors}
          onPlace={onPlace}
          onLeave={() => first.current?.focus()}
        />
      </Suspense>
      <Text size="xs" c="dimmed">
        {HELP}
      </Text>
      <CompilerErrors errors={withoutListed(errors, refused, files)} onPlace={onPlace} />
      <PublishButtons publishing={publishing} leftOut={leftOut} first={first} onPlace={onPlace} />
    </Stack>
  );
}

/** Returns the same array if nothing changed, so that React does not render again. */
function withText(files: readonly TextFile[], path: string, contentText: string): readonly TextFile[] {
  const at = files.findIndex((file) => file.path === path);
  if (at === -1 || files[at]?.contentText === contentText) return files;
  return files.with(at, { path, contentText });
}

interface Refused {
  readonly faults: readonly Fault[];
  /** The files that the service refused. */
  readonly files: readonly TextFile[];
}

/** One mistake is listed once: a line that the service refused is in the alert, as long as its file has not changed. */
function withoutListed(errors: readonly Fault[], refused: Refused, files: readonly TextFile[]): readonly Fault[] {
  const find = (of: readonly TextFile[], path?: string) => of.find((file) => file.path === path)?.contentText;
  const current = refused.faults.filter(({ path }) => find(files, path) === find(refused.files, path));
  return errors.filter(({ path, line }) => !current.some((fault) => fault.path === path && fault.line === line));
}
