/** Compiles one code file of a package without its imports, and checks it, so that forbidden syntax never reaches the bundling. */
import { isBuiltin } from 'node:module';
import { type Loader, type OnLoadResult, type PartialMessage, transform } from 'esbuild';
import { mapPosition, NAMESPACE } from '../../db/records/source-maps.ts';
import { formatLocation, type ProblemLocation } from '../../sdk/contract/errors.ts';
import { cutQuoted } from '../../service/text/quoted-text.ts';
import { findLibraryLines } from './author-files.ts';
import type { BuildTime } from './build-time.ts';
import { withoutWarnings } from './esbuild-warnings.ts';
import { CodeFault, type FileSyntax, findImports, type ImportCall, parseFile } from './file-syntax.ts';
import { type FreeName, findFreeNames } from './free-names.ts';
import { blankAttributes, describeAttributesFault } from './import-attributes.ts';
import { LineIndex } from './line-index.ts';
import { applyEdits } from './ses-source.ts';
import { findUnknownToolKeys } from './tool-keys.ts';
import { findUnclosed } from './unclosed.ts';
import type { UndeclaredNames } from './undeclared-names.ts';

const ALLOWED_IMPORTS =
  'A plugin imports .ts, .js and .json files of its own package by relative path, and nothing else';
/** Errors reported in one file, and warnings in a package; the first usually explain the others. */
export const REPORTS_MAX = 20;
/** TypeScript drops imports that only types use. This keeps those that are not marked as types. */
const KEEPING_IMPORTS = '{"compilerOptions":{"verbatimModuleSyntax":true}}';
/** Cheap check before a second compilation: few files import anything but files. */
const FOREIGN_IMPORT = /\b(?:from|import)\s*['"](?!\.)/;
const COMPUTED_IMPORT =
  'import() needs a relative path in quotes: only files of the package can be imported, which are fixed at its publish';

export const quotePath = (path: string): string => `“${cutQuoted(path)}”`;
export const refuseImport = (path: string, fault = 'cannot be imported'): string =>
  path.includes('\\')
    ? `${quotePath(path)} has backslashes. Write ${quotePath(path.replaceAll('\\', '/'))}`
    : `${quotePath(path)} ${fault}. ${ALLOWED_IMPORTS}${adviseBundling(path)}`;

/** An npm package, with its scope and the file in it if it has them. Such a text needs no quotes in a shell. */
const PACKAGE_PATH = /^(?:@[\w.-]{1,100}\/)?(\w[\w.-]{0,100})(?:\/[\w./-]{1,100})?$/;

/** Says how an npm package becomes a file of the package. */
function adviseBundling(path: string): string {
  const name = PACKAGE_PATH.exec(path)?.[1];
  // A file of the package without its `./`.
  const isOwnFile = /\.(?:ts|json)$/.test(path);
  if (name === undefined || isOwnFile || isBuiltin(path)) return '';
  return `. Bundle an npm package into one: npx esbuild ${path} --bundle --format=esm --platform=browser --outfile=vendor/${name}.js`;
}

export const isRelative = (path: string): boolean => /^\.\.?(\/|$)/.test(path);

interface CodeFile {
  readonly path: string;
  readonly source: string;
  readonly loader: Loader;
}
/** From 1; absent: unknown. */
type CodePlace = Pick<ProblemLocation, 'line' | 'column'>;
/** The source map of each file that compiled, by its path: esbuild's messages about the bundle name places in the compiled code. */
export type SourceMaps = Map<string, string>;
/** Facts about the rest of the package that compiling a file needs. */
export interface CompileContext {
  readonly names: UndeclaredNames;
  readonly time: BuildTime;
  readonly sourceMaps: SourceMaps;
  /** The code file of the package that a relative path in a file leads to. */
  findModule(importer: string, path: string): string | undefined;
}

/**
 * esbuild takes a file without imports and exports for a CommonJS module. An import of a missing name of such a module is undefined
 * instead of an error.
 */
const MODULE_MARK = '\nexport {};';
/** What a CommonJS module has. In JavaScript, `this` at its top level is its exports. */
const COMMON_JS: Readonly<Partial<Record<Loader, RegExp>>> = {
  ts: /\b(?:module|exports)\b/,
  js: /\b(?:module|exports|this)\b/,
};
/** A TypeScript file may export types only, of which its compiled code has nothing. Another file may export them again by name. */
const TYPE_EXPORT = /\bexport\b/;

/** Compiles a file. Throws because of its content only when the time of the build is over. */
export async function compileFile(file: CodeFile, context: CompileContext): Promise<OnLoadResult> {
  try {
    const { code, map } = await transformFile(file).catch(async (error: unknown) => {
      throw await locateInSource(file, error, context);
    });
    const { compiled, errors } = context.time.run(code, () => {
      const compiled = new CompiledFile(file, code, map);
      return { compiled, errors: compiled.findErrors(context) };
    });
    if (errors.length === 0 && FOREIGN_IMPORT.test(file.source)) errors.push(...(await findBuiltins(file, context)));
    if (errors.length > 0) return { errors: errors.slice(0, REPORTS_MAX) };
    return context.time.run(code, (): OnLoadResult => {
      compiled.collectNames(context.names);
      context.sourceMaps.set(file.path, map);
      const url = `data:application/json;base64,${Buffer.from(map).toString('base64')}`;
      const absent = compiled.findAbsentImports(context);
      const plain = blankAttributes(code, compiled.syntax.importAttributes);
      const mark = compiled.isPlainScript() ? MODULE_MARK : '';
      const contents = `${respellImportCalls(plain, absent)}${mark}\n//# sourceMappingURL=${url}`;
      return { contents, loader: 'js', warnings: compiled.listWarnings() };
    });
  } catch (error) {
    if (error instanceof Error && 'errors' in error) return { errors: error.errors as PartialMessage[] };
    throw error;
  }
}

/** esbuild uses the last such comment of a file, so this one overrides a source map in the package. */
const NO_SOURCE_MAP = '\n//# sourceMappingURL=none';
/** esbuild's messages about code that ends inside something. */
const ENDS_EARLY = /end of file$|^Unterminated string|^Expected "\*\/" to terminate/;

/** @param tsconfig as JSON */
const transformFile = ({ path, source, loader }: CodeFile, tsconfig = '{}', ending = NO_SOURCE_MAP) =>
  transform(`${source}${ending}`, {
    loader,
    sourcefile: `${NAMESPACE}:${path}`,
    sourcemap: 'external',
    sourcesContent: false,
    target: 'es2024',
    // They are checked and removed before the bundling.
    supported: { 'import-attributes': true, 'import-assertions': true },
    charset: 'utf8',
    define: {
      // An address that leads nowhere, so that a library can resolve paths against it.
      'import.meta': JSON.stringify({ url: new URL(path, 'plugin:///').href }),
      // Libraries choose their production build by it.
      'process.env.NODE_ENV': '"production"',
    },
    tsconfigRaw: tsconfig,
    ...withoutWarnings,
  });

/**
 * Compiles a refused file again without the comment below it, so that an error at its end lies in the author's own last line, and
 * says what is open there.
 */
async function locateInSource(file: CodeFile, error: unknown, { time }: CompileContext): Promise<unknown> {
  const source = file.source.trimEnd();
  try {
    await transformFile({ ...file, source }, undefined, '');
    return error;
  } catch (located) {
    if (!(located instanceof Error) || !('errors' in located)) throw located;
    const errors = (located.errors as PartialMessage[]).map((message) => {
      const { line, lineText } = message.location ?? {};
      const isAtEnd = ENDS_EARLY.test(message.text ?? '') && line === source.split('\n').length;
      const opened =
        isAtEnd && message.location?.column === Buffer.byteLength(lineText ?? '')
          ? time.run(source, () => findUnclosed(source))
          : null;
      if (opened === null) return message;
      const text = `The code ends too early: “${opened.text}” in line ${opened.line}, column ${opened.column} is not closed`;
      return { ...message, text };
    });
    return Object.assign(located, { errors });
  }
}

/** A file after its compilation to JavaScript. Offsets count in its code. */
class CompiledFile {
  readonly syntax: FileSyntax;
  readonly #freeNames: readonly FreeName[];
  readonly #path: string;
  readonly #source: string;
  readonly #loader: Loader;
  readonly #code: string;
  readonly #map: string;
  readonly #isLibraryLine: (line: number) => boolean;
  #lines: LineIndex | null = null;

  /** @throws with the errors of the code */
  constructor({ path, source, loader }: CodeFile, code: string, map: string) {
    this.#path = path;
    this.#source = source;
    this.#loader = loader;
    this.#code = code;
    this.#map = map;
    this.#isLibraryLine = findLibraryLines(path, source);
    try {
      this.syntax = parseFile(code);
    } catch (error) {
      if (!(error instanceof CodeFault)) throw error;
      throw Object.assign(error, { errors: [reportAt(path, mapPosition(map, error), error.message)] });
    }
    this.#freeNames = findFreeNames(this.syntax.tree);
  }

  /** Finds forbidden constructs in the author's own code. The resolver checks imports of files. */
  findErrors(context: CompileContext): PartialMessage[] {
    const imports = this.syntax.importCalls
      .filter(({ from }) => from === null || !isRelative(from))
      .map(({ start, from }) => ({ start, message: from === null ? COMPUTED_IMPORT : refuseImport(from) }));
    const faults = [...this.syntax.forbidden, ...imports]
      .map(({ start, message }) => ({ at: this.#locate(start), message }))
      .filter(({ at }) => !this.#isInLibrary(at));
    return [...faults, ...this.#findAttributesFaults(context)].map(({ at, message }) =>
      reportAt(this.#path, at, message),
    );
  }

  /**
   * Checks the attributes of imports of files in the package. Also in libraries: a file that is not what its import says would mislead
   * a reader.
   */
  #findAttributesFaults(context: CompileContext): { at: CodePlace; message: string }[] {
    return this.syntax.importAttributes.flatMap((attributes) => {
      const { start, from, isLiteral } = attributes;
      const at = this.#locate(start);
      if (!isLiteral && this.#isInLibrary(at)) return [];
      const found = from === null ? undefined : context.findModule(this.#path, from);
      const message = found === undefined ? null : describeAttributesFault(attributes, found);
      return message === null ? [] : [{ at, message }];
    });
  }

  /** Calls of import() in libraries for something else than a file of the package. */
  findAbsentImports(context: CompileContext): ImportCall[] {
    return this.syntax.importCalls.filter(
      ({ start, from }) =>
        (from === null || context.findModule(this.#path, from) === undefined) && this.#isInLibrary(this.#locate(start)),
    );
  }

  collectNames(names: UndeclaredNames): void {
    const { isModule, createdGlobals } = this.syntax;
    names.addFile({
      path: this.#path,
      isModule,
      createdGlobals,
      freeNames: this.#freeNames,
      locate: (start) => this.#locate(start),
      isLibraryLine: this.#isLibraryLine,
    });
  }

  /** Warnings with the author's file, line and column. */
  listWarnings(): PartialMessage[] {
    return findUnknownToolKeys(this.syntax.tree, this.#freeNames)
      .take(REPORTS_MAX)
      .map(({ start, message }) => ({
        text: formatLocation({ path: this.#path, ...this.#locate(start), message }),
      }))
      .toArray();
  }

  /** Whether the file is the author's own, without import and export statements, also of types, and without exports of CommonJS. */
  isPlainScript(): boolean {
    if (this.syntax.isModule || this.#isLibraryLine(1)) return false;
    if (this.#loader === 'ts' && TYPE_EXPORT.test(this.#source)) return false;
    return COMMON_JS[this.#loader]?.test(this.#code) === false;
  }

  #isInLibrary({ line = 1 }: CodePlace): boolean {
    return this.#isLibraryLine(line);
  }

  #locate(start: number): CodePlace {
    this.#lines ??= new LineIndex(this.#code);
    return mapPosition(this.#map, this.#lines.locate(start));
  }
}

/** Finds imports of Node's modules, also those whose names no code uses. */
async function findBuiltins(file: CodeFile, { time }: CompileContext): Promise<PartialMessage[]> {
  const { code, map } = await transformFile(file, KEEPING_IMPORTS);
  const lines = new LineIndex(code);
  return time
    .run(code, () => findImports(code))
    .filter(({ from }) => isBuiltin(from))
    .map(({ from, start }) => reportAt(file.path, mapPosition(map, lines.locate(start)), refuseImport(from)));
}

function reportAt(path: string, { line, column }: CodePlace, text: string): PartialMessage {
  if (line === undefined || column === undefined) return { text, location: { file: `${NAMESPACE}:${path}` } };
  // `column` counts characters. An empty `lineText` says so: esbuild's own columns count bytes of that text.
  return { text, location: { file: path, line, column: column - 1, lineText: '' } };
}

/**
 * Makes calls of import() that find nothing in the package reject when they are made. The word is replaced by a name of the
 * same length, so that no position changes.
 */
function respellImportCalls(code: string, calls: readonly ImportCall[]): string {
  if (calls.length === 0) return code;
  const name = chooseName(code);
  const edits = calls.map(({ start }) => ({ start, found: 'import', replacement: name }));
  const message = JSON.stringify('” cannot be imported: a plugin has the files of its package only');
  return `${applyEdits(code, edits)}\nasync function ${name}(from) { throw new TypeError("“" + from + ${message}); }`;
}

/** A name as long as `import` that the code does not contain. Reads the code once: it may contain a million such names. */
function chooseName(code: string): string {
  const used = new Uint8Array(code.length + 1);
  for (const [, padded = ''] of code.matchAll(/(?=i([_0-9a-z]{5}))/g)) {
    const number = Number.parseInt(padded.replaceAll('_', ''), 36);
    if (number < used.length) used[number] = 1;
  }
  return `i${used
    .indexOf(0)
    .toString(36)
    .padStart('import'.length - 1, '_')}`;
}
