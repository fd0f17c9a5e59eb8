/** The virtual file system of esbuild: the files of one package, reachable by relative imports only. */
import { readFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { posix } from 'node:path';
import {
  type Loader,
  type OnLoadResult,
  type OnResolveArgs,
  type OnResolveResult,
  type PartialMessage,
  type Plugin,
  transform,
} from 'esbuild';
import { closest } from 'fastest-levenshtein';
import { mapPosition, NAMESPACE } from '../../db/records/source-maps.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { type ForbiddenPlace, findForbidden, findImports } from './forbidden-syntax.ts';

/**
 * Maximum size of a package's code: more takes seconds to build and makes a bundle that is too large to load. Bytes.
 */
export const SOURCE_MAX_BYTES = 8 * MIB;

const LOADERS: Readonly<Record<string, Loader>> = { '.ts': 'ts', '.js': 'js', '.json': 'json' };
/** Extensions tried, in order, for an import without one. */
const ENDINGS = ['', '.ts', '.js', '.json', '/index.ts', '/index.js'] as const;
const ALLOWED = 'A plugin imports .ts, .js and .json files of its own package by relative path, and nothing else';
/** TypeScript drops imports that only types use. This keeps those that are not marked as types. */
const KEEPING_IMPORTS = '{"compilerOptions":{"verbatimModuleSyntax":true}}';
/** A first look, because few files import anything but files. */
const FOREIGN_IMPORT = /\b(?:from|import)\s*['"](?!\.)/;

/** Maps paths in the package to the staged files. */
export type ModulePaths = Readonly<Record<string, string>>;

/** Creates an esbuild plugin that answers every resolve and load from the package. */
export function packageModules(files: ModulePaths): Plugin {
  return {
    name: 'package',
    setup(build) {
      let loadedBytes = 0;
      build.onResolve({ filter: /.*/ }, (args) => resolve(files, args));
      build.onLoad({ filter: /.*/, namespace: NAMESPACE }, async ({ path }): Promise<OnLoadResult> => {
        const stagedAt = files[path];
        if (stagedAt === undefined) return { errors: [{ text: `“${path}” is not in the package` }] };
        const bytes = await readFile(stagedAt);
        loadedBytes += bytes.byteLength;
        if (loadedBytes > SOURCE_MAX_BYTES) {
          return { errors: [at(path, `The code of the package is larger than ${SOURCE_MAX_BYTES} bytes`)] };
        }
        return load(path, bytes);
      });
      // A second barrier: no other import may reach the disk.
      build.onLoad({ filter: /.*/ }, ({ path }) => ({ errors: [{ text: `“${path}” is not in the package` }] }));
    },
  };
}

async function load(path: string, bytes: Buffer): Promise<OnLoadResult> {
  let source: string;
  try {
    source = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return { errors: [at(path, 'The file is not UTF-8 text')] };
  }
  const loader = LOADERS[posix.extname(path)] ?? 'ts';
  return loader === 'json' ? { contents: source, loader } : compile(path, source, loader);
}

/** Compiles each file alone first, without its imports, so that forbidden syntax never reaches the bundling. */
async function compile(path: string, source: string, loader: Loader): Promise<OnLoadResult> {
  try {
    const { code, map } = await transformFile(path, source, loader);
    const forbidden = findForbidden(code).map((place) => forbiddenAt(map, path, place));
    if (forbidden.length === 0 && FOREIGN_IMPORT.test(source))
      forbidden.push(...(await refuseBuiltins(path, source, loader)));
    if (forbidden.length > 0) return { errors: forbidden };
    const url = `data:application/json;base64,${Buffer.from(map).toString('base64')}`;
    return { contents: `${code}\n//# sourceMappingURL=${url}`, loader: 'js' };
  } catch (error) {
    if (error instanceof Error && 'errors' in error) return { errors: error.errors as PartialMessage[] };
    throw error;
  }
}

/** @param tsconfig as JSON */
const transformFile = (path: string, source: string, loader: Loader, tsconfig = '{}') =>
  // esbuild uses the last such comment of a file, so this one overrides a source map in the package.
  transform(`${source}\n//# sourceMappingURL=none`, {
    loader,
    sourcefile: `${NAMESPACE}:${path}`,
    sourcemap: 'external',
    sourcesContent: false,
    target: 'es2024',
    charset: 'utf8',
    tsconfigRaw: tsconfig,
    logLevel: 'silent',
  });

/** Refuses imports of Node's modules, also those whose names no code uses. */
async function refuseBuiltins(path: string, source: string, loader: Loader): Promise<PartialMessage[]> {
  const { code, map } = await transformFile(path, source, loader, KEEPING_IMPORTS);
  return findImports(code)
    .filter(({ from }) => isBuiltin(from))
    .map(({ from, line, column }) =>
      forbiddenAt(map, path, { line, column, message: `“${from}” cannot be imported. ${ALLOWED}` }),
    );
}

function forbiddenAt(map: string, path: string, place: ForbiddenPlace): PartialMessage {
  const { line, column } = mapPosition(map, place);
  if (line === undefined || column === undefined) return at(path, place.message);
  // In characters, as `lineText` would tell readers of the message.
  return { text: place.message, location: { file: path, line, column: column - 1, lineText: '' } };
}

function resolve(files: ModulePaths, args: OnResolveArgs): OnResolveResult {
  const { path, kind, importer } = args;
  if (kind === 'entry-point') return { path, namespace: NAMESPACE };
  if (kind !== 'import-statement') return refusal('Only import statements are allowed');
  if (!/^\.\.?(\/|$)/.test(path)) return refusal(`“${path}” cannot be imported. ${ALLOWED}`);
  const target = posix.join(posix.dirname(importer), path);
  if (target.startsWith('..')) return refusal(`“${path}” leaves the package. ${ALLOWED}`);
  const found = findModule(files, target);
  if (found === undefined) return refusal(`“${path}” is not in the package.${suggestion(files, importer, target)}`);
  if (!isCode(found)) return refusal(`“${path}” is not a code file. ${ALLOWED}`);
  return { path: found, namespace: NAMESPACE };
}

/** Resolves a path in the package as an import does. */
export function findModule(files: ModulePaths, target: string): string | undefined {
  const candidates = ENDINGS.map((ending) => `${target}${ending}`);
  // As in TypeScript, an import may name the .js that a build would make of the .ts.
  if (target.endsWith('.js')) candidates.push(`${target.slice(0, -'.js'.length)}.ts`);
  return candidates.find((candidate) => Object.hasOwn(files, candidate));
}

function suggestion(files: ModulePaths, importer: string, target: string): string {
  const code = Object.keys(files).filter((path) => path !== importer && isCode(path));
  if (code.length === 0) return '';
  const relative = posix.relative(posix.dirname(importer), closest(target, code));
  return ` The nearest is “${relative.startsWith('.') ? relative : `./${relative}`}”`;
}

export const isCode = (path: string): boolean => LOADERS[posix.extname(path)] !== undefined;
const refusal = (text: string): OnResolveResult => ({ errors: [{ text }] });
const at = (file: string, text: string): PartialMessage => ({ text, location: { file: `${NAMESPACE}:${file}` } });
