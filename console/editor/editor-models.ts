/** Keeps the editor's models in sync with the files of a package. */
import type { TextFile } from '../authoring/package-files.ts';
import type { Fault } from './faults.ts';
import { editor, MarkerSeverity, Uri } from './monaco.ts';

/** Separates the service's markers from those of the TypeScript compiler. */
const OWNER = 'bulkhead';
/** A marker without a column covers its whole line. */
const LINE_END = Number.MAX_SAFE_INTEGER;

const ROOT = '/plugin/';

const createUri = (path: string): Uri => Uri.from({ scheme: 'file', path: ROOT + path });

/** False for the declarations of the SDK and the language. */
export const isInPackage = ({ path }: Uri): boolean => path.startsWith(ROOT);

/** Returns the path of a model's file in its package. */
export const getFile = ({ path }: Uri): string => path.slice(ROOT.length);

/** Returns the model of a file, and creates it if necessary. */
export function getModel({ path, contentText }: TextFile): editor.ITextModel {
  const uri = createUri(path);
  return editor.getModel(uri) ?? editor.createModel(contentText, detectLanguage(path), uri);
}

/**
 * Creates and disposes models, so that the compiler sees exactly these files. An existing model keeps its text: the user
 * types into it, and the files of the state are older.
 */
export function syncModels(files: readonly TextFile[]): void {
  const wanted = new Set(files.map(({ path }) => createUri(path).toString()));
  for (const model of editor.getModels()) if (!wanted.has(model.uri.toString())) model.dispose();
  for (const file of files) getModel(file);
}

/** Returns what the compiler found wrong in all files, by file and line. */
export function readErrors(): Fault[] {
  const errors = editor
    .getModelMarkers({})
    .filter(({ owner, severity }) => owner !== OWNER && severity === MarkerSeverity.Error)
    .map(({ resource, startLineNumber, startColumn, message }) => ({
      path: getFile(resource),
      line: startLineNumber,
      column: startColumn,
      message,
    }));
  return errors.sort((a, b) => a.path.localeCompare(b.path) || a.line - b.line || a.column - b.column);
}

/** Shows the service's faults as markers. */
export function markFaults(files: readonly TextFile[], faults: readonly Fault[]): void {
  for (const file of files) {
    const markers = faults
      .filter(({ path }) => path === file.path)
      .map(({ line = 1, column, message }) => ({
        severity: MarkerSeverity.Error,
        message,
        startLineNumber: line,
        endLineNumber: line,
        startColumn: column ?? 1,
        endColumn: column === undefined ? LINE_END : column + 1,
      }));
    editor.setModelMarkers(getModel(file), OWNER, markers);
  }
}

function detectLanguage(path: string): string {
  // The compiler also checks JSON files, which the others import.
  if (/\.(tsx?|json)$/.test(path)) return 'typescript';
  if (/\.m?js$/.test(path)) return 'javascript';
  return path.endsWith('.md') ? 'markdown' : 'plaintext';
}
