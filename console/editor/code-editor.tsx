/** The code editor for one file of a package. */
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useEffectEvent, useRef } from 'react';
import type { TextFile } from '../authoring/package-files.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { getFile, getModel, isInPackage, markFaults, readErrors, syncModels } from './editor-models.ts';
import type { Fault, Place } from './faults.ts';
import { editor, type IPosition, type IRange, KeyCode } from './monaco.ts';
import { recheckFiles } from './typescript.ts';
import { useWorkerFault } from './worker-fault.ts';

/** Escape leaves the editor only if there is no widget for it to close. */
const NO_WIDGET_OPEN = [
  '!suggestWidgetVisible',
  '!findWidgetVisible',
  '!parameterHintsVisible',
  '!markersNavigationVisible',
  '!renameInputVisible',
  '!inSnippetMode',
  '!editorHasMultipleSelections',
  '!referenceSearchVisible',
  '!editorHoverVisible',
  '!inReferenceSearchEditor',
  '!messageVisible',
  '!codeActionMenuVisible',
].join(' && ');
/** After a change, the files that import the changed one are checked again. Longer than Monaco waits for the changed one. Milliseconds. */
const RECHECK_MS = 700;
/** Markers disappear while a file is checked again. Milliseconds. */
const MARKERS_SETTLE_MS = 300;
const FONT = '"JetBrains Mono Variable", ui-monospace, Menlo, Consolas, monospace';
const OPTIONS: editor.IStandaloneEditorConstructionOptions = {
  automaticLayout: true,
  fontSize: 13,
  fontFamily: FONT,
  minimap: { enabled: false },
  scrollBeyondLastLine: false,
  tabSize: 2,
  links: false,
  fixedOverflowWidgets: true,
  wordWrap: 'on',
  padding: { top: 8 },
  renderLineHighlight: 'gutter',
  // Deceptive code relies on characters that a reader does not see.
  unicodeHighlight: { ambiguousCharacters: true, invisibleCharacters: true, nonBasicASCII: false },
  renderControlCharacters: true,
  // A faded name has too little contrast.
  showUnused: false,
  stickyScroll: { enabled: false },
  accessibilitySupport: 'on',
};

interface CodeEditorProps {
  readonly files: readonly TextFile[];
  readonly path: string;
  readonly faults: readonly Fault[];
  /** The place to reveal. A new object reveals it again. */
  readonly place: Place | null;
  readonly onText: (path: string, contentText: string) => void;
  /** Called with the errors that the compiler found in all files. */
  readonly onErrors: (errors: readonly Fault[]) => void;
  /** Called to open another place, such as where a name is defined. */
  readonly onPlace: (place: Place) => void;
  /** Moves the focus out of the editor, in which Tab indents. */
  readonly onLeave: () => void;
}

export function CodeEditor({ files, path, faults, place, ...handlers }: CodeEditorProps) {
  const box = useRef<HTMLDivElement>(null);
  const shown = useRef<editor.IStandaloneCodeEditor>(null);
  const latest = useRef(handlers);
  latest.current = handlers;
  const scheme = useComputedColorScheme('light');
  const fault = useWorkerFault();
  useEffect(() => {
    if (!box.current) return;
    const made = editor.create(box.current, OPTIONS);
    // Each model, and not only the shown one: renaming a symbol edits all files that use it.
    const creating = editor.onDidCreateModel((model) => {
      model.onDidChangeContent(() => latest.current.onText(getFile(model.uri), model.getValue()));
    });
    let settling: ReturnType<typeof setTimeout>;
    const following = editor.onDidChangeMarkers(() => {
      clearTimeout(settling);
      settling = setTimeout(() => latest.current.onErrors(readErrors()), MARKERS_SETTLE_MS);
    });
    // The editor itself shows one file, and cannot lead to another.
    const leading = editor.registerEditorOpener({
      openCodeEditor: (_source, uri, at) => {
        if (!isInPackage(uri)) return false;
        latest.current.onPlace({ path: getFile(uri), ...readPosition(at) });
        return true;
      },
    });
    made.addCommand(KeyCode.Escape, () => latest.current.onLeave(), NO_WIDGET_OPEN);
    shown.current = made;
    // The font may load after the editor, which computes pointer positions from character widths.
    void document.fonts.load(`13px ${FONT}`).then(() => editor.remeasureFonts());
    return () => {
      clearTimeout(settling);
      following.dispose();
      creating.dispose();
      leading.dispose();
      made.dispose();
      syncModels([]);
    };
  }, []);
  useEffect(() => editor.setTheme(scheme === 'dark' ? 'vs-dark' : 'vs'), [scheme]);
  useEffect(() => {
    syncModels(files);
    const file = files.find((one) => one.path === path);
    shown.current?.setModel(file ? getModel(file) : null);
    shown.current?.updateOptions({ ariaLabel: `${path}. Escape leaves the editor, Control M makes Tab leave it.` });
  }, [files, path]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of any file may change the errors of all
  useEffect(() => {
    const timer = setTimeout(recheckFiles, RECHECK_MS);
    return () => clearTimeout(timer);
  }, [files]);
  // Once: afterwards the marks move with the text.
  const mark = useEffectEvent((given: readonly Fault[]) => markFaults(files, given));
  useEffect(() => mark(faults), [faults]);
  useEffect(() => {
    if (!place || place.path !== path) return;
    shown.current?.revealLineInCenter(place.line);
    shown.current?.setPosition({ lineNumber: place.line, column: place.column });
    shown.current?.focus();
  }, [place, path]);
  return (
    <>
      <div ref={box} className="code-editor" />
      {fault === null ? null : <ErrorAlert error={fault} />}
    </>
  );
}

function readPosition(at: IRange | IPosition | undefined): Pick<Place, 'line' | 'column'> {
  if (at === undefined) return { line: 1, column: 1 };
  if ('lineNumber' in at) return { line: at.lineNumber, column: at.column };
  return { line: at.startLineNumber, column: at.startColumn };
}
