/** Reports the names that the code of a package uses and that neither a file nor the realm declares. */
import type { PartialMessage } from 'esbuild';
import type { ProblemLocation } from '../../sdk/contract/errors.ts';
import { absentGlobals } from '../../sdk/contract/realm-globals.ts';
import { findNearName } from '../../service/text/near-name.ts';
import type { FreeName } from './free-names.ts';

/** Uses of undeclared names that are examined in one file; ordinary files have a few. */
const USES_MAX = 10_000;
/** Undeclared names reported of the author's own files; the first usually explain the others. */
const ERRORS_MAX = 20;
/** Names that one warning lists. */
const LISTED_MAX = 5;
/** Names or paths that are compared for a suggestion. */
export const CANDIDATES_MAX = 5_000;
/** A shorter name is near to too many. Characters. */
const COMPARED_MIN = 3;
/** A longer name or path costs too much to compare. Characters. */
export const COMPARED_MAX = 60;
/** The bundler declares them in files without import and export. */
const COMMON_JS: ReadonlySet<string> = new Set(['module', 'exports', 'require']);

const IF_LIBRARY = ' (if the file is a library’s, move it below vendor/)';

interface NamedFile {
  readonly path: string;
  readonly isModule: boolean;
  readonly freeNames: readonly FreeName[];
  /** Names that its code assigns as properties of the global object. They count as declared. */
  readonly createdGlobals: readonly string[];
  /** The author's line and column, from 1, of an offset in the compiled code. */
  locate(offset: number): Pick<ProblemLocation, 'line' | 'column'>;
  isLibraryLine(line: number): boolean;
}
interface Use {
  readonly path: string;
  readonly line: number;
  readonly column: number;
  readonly name: string;
  readonly nearest: string | null;
}

/** Collects the undeclared names of all files, because one file may create a global that another one uses. */
export class UndeclaredNames {
  readonly #globals: ReadonlySet<string>;
  readonly #created = new Set<string>();
  readonly #own: Use[] = [];
  readonly #ofLibraries = new Map<string, Map<string, number>>();

  /** @param globals of the realm */
  constructor(globals: ReadonlySet<string>) {
    this.#globals = globals;
  }

  addFile(file: NamedFile): void {
    for (const name of file.createdGlobals) this.#created.add(name);
    const seen = new Set<string>();
    for (const { name, start, listVisible } of file.freeNames.slice(0, USES_MAX)) {
      if (this.#globals.has(name) || (!file.isModule && COMMON_JS.has(name))) continue;
      const { line = 1, column = 1 } = file.locate(start);
      const isLibrary = file.isLibraryLine(line);
      const key = `${isLibrary} ${name}`;
      if (seen.has(key)) continue;
      seen.add(key);
      if (isLibrary) this.#addOfLibrary(file.path, name, line);
      else if (this.#own.length < ERRORS_MAX)
        this.#own.push({
          path: file.path,
          line,
          column,
          name,
          nearest: this.#findNearest(name, listVisible(CANDIDATES_MAX)),
        });
    }
  }

  /** Undeclared names of the author's own code. */
  listErrors(): PartialMessage[] {
    return this.#own
      .filter(({ name }) => !this.#created.has(name))
      .map(({ path, line, column, name, nearest }) => ({
        text: `“${name}” is not declared${describeRemedy(name, nearest)}${path.endsWith('.js') ? IF_LIBRARY : ''}`,
        location: { file: path, line, column: column - 1, lineText: '' },
      }));
  }

  /** One sentence for each library file with undeclared names. */
  listWarnings(): string[] {
    return [...this.#ofLibraries].flatMap(([path, lines]) => {
      const names = [...lines].filter(([name]) => !this.#created.has(name));
      if (names.length === 0) return [];
      const listed = names.slice(0, LISTED_MAX).map(([name, line]) => `${name} (line ${line})`);
      const more = names.length > LISTED_MAX ? ` and ${names.length - LISTED_MAX} more` : '';
      return `${path} uses names that plugins do not have: ${listed.join(', ')}${more}. Code that reaches them throws a ReferenceError.`;
    });
  }

  #addOfLibrary(path: string, name: string, line: number): void {
    const lines = this.#ofLibraries.get(path) ?? new Map<string, number>();
    lines.set(name, line);
    this.#ofLibraries.set(path, lines);
  }

  #findNearest(name: string, visible: readonly string[]): string | null {
    if (name.length < COMPARED_MIN || name.length > COMPARED_MAX) return null;
    const candidates = [...visible, ...this.#globals].filter((candidate) => candidate.length <= COMPARED_MAX);
    return findNearName(name, candidates);
  }
}

function describeRemedy(name: string, nearest: string | null): string {
  if (Object.hasOwn(absentGlobals, name)) return `. Plugins have no ${name}: ${absentGlobals[name]}`;
  if (nearest !== null) return `. Did you mean “${nearest}”?`;
  return '. Declare or import it; if it may be missing, test it with typeof first';
}
