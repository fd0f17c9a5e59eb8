/** A package's files as the editor holds them. */
import type { TextFile } from '../authoring/package-files.ts';
import type { Fault } from './faults.ts';
import { editor, MarkerSeverity, Uri } from './monaco.ts';

/** Marks of the service, beside those of the TypeScript compiler. */
const OWNER = 'bulkhead';
/** A mark without a column goes to the end of its line. */
const LINE_END = Number.MAX_SAFE_INTEGER;

const uriOf = (path: string): Uri => Uri.from({ scheme: 'file', path: `/plugin/${path}` });

/** The file's model; made with this text where there is none yet. */
export function getModel({ path, contentText }: TextFile): editor.ITextModel {
  const uri = uriOf(path);
  return editor.getModel(uri) ?? editor.createModel(contentText, languageOf(path), uri);
}

/** Makes the models those of exactly these files: the compiler sees the whole package, and no other. */
export function syncModels(files: readonly TextFile[]): void {
  const wanted = new Set(files.map(({ path }) => uriOf(path).toString()));
  for (const model of editor.getModels()) if (!wanted.has(model.uri.toString())) model.dispose();
  for (const file of files) {
    const model = getModel(file);
    if (model.getValue() !== file.contentText) model.setValue(file.contentText);
  }
}

/** Shows what the service found wrong, where it is wrong. */
export function markFaults(files: readonly TextFile[], faults: readonly Fault[]): void {
  for (const file of files) {
    const markers = faults
      .filter(({ path }) => path === file.path)
      .map(({ line = 1, column, message }) => ({
        ...{ severity: MarkerSeverity.Error, message, startLineNumber: line, endLineNumber: line },
        ...{ startColumn: column ?? 1, endColumn: column === undefined ? LINE_END : column + 1 },
      }));
    editor.setModelMarkers(getModel(file), OWNER, markers);
  }
}

function languageOf(path: string): string {
  if (/\.tsx?$/.test(path)) return 'typescript';
  if (/\.m?js$/.test(path)) return 'javascript';
  return path.endsWith('.md') ? 'markdown' : 'plaintext';
}
