/** The virtual file system of esbuild: the files of one package, reachable by relative imports only. */
import { readFile } from 'node:fs/promises';
import { posix } from 'node:path';
import type { Loader, OnLoadResult, OnResolveArgs, OnResolveResult, PartialMessage, Plugin } from 'esbuild';
import { closest } from 'fastest-levenshtein';
import { NAMESPACE } from '../../db/records/source-maps.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { isToolFile, isToolFolder } from '../../sdk/contract/package-paths.ts';
import type { BuildTime } from './build-time.ts';
import { type CompileContext, compileFile, isRelative, quotePath, refuseImport, type SourceMaps } from './code-file.ts';
import { CANDIDATES_MAX, COMPARED_MAX, UndeclaredNames } from './undeclared-names.ts';

/**
 * Maximum size of a package's code: more takes seconds to build and makes a bundle that is too large to load. Bytes.
 */
export const SOURCE_MAX_BYTES = 8 * MIB;

/** Imports of missing files for which a build names the nearest file: the first explain the others. */
const HINTS_MAX = 20;

const LOADERS: Readonly<Record<string, Loader>> = { '.ts': 'ts', '.js': 'js', '.json': 'json' };
/** Extensions tried, in order, for an import without one. */
const ENDINGS = ['', '.ts', '.js', '.json', '/index.ts', '/index.js'] as const;
/** Maps paths in the package to the staged files. */
export type ModulePaths = Readonly<Record<string, string>>;

/**
 * Creates an esbuild plugin that answers every resolve and load from the package.
 *
 * @param globals of the realm
 * @param time of the build
 * @param sourceMaps receives those of the compiled files
 */
export function packageModules(
  files: ModulePaths,
  globals: ReadonlySet<string>,
  time: BuildTime,
  sourceMaps: SourceMaps,
): Plugin {
  return {
    name: 'package',
    setup(build) {
      let loadedBytes = 0;
      const names = new UndeclaredNames(globals);
      const context: CompileContext = {
        names,
        time,
        sourceMaps,
        findModule: (importer, path) => {
          const found = isRelative(path) ? findModule(files, targetOf(importer, path)) : undefined;
          return found !== undefined && isCode(found) ? found : undefined;
        },
      };
      const hints = new NearestFiles(files);
      build.onResolve({ filter: /.*/ }, (args) => resolve(files, hints, args));
      build.onLoad({ filter: /.*/, namespace: NAMESPACE }, async ({ path }): Promise<OnLoadResult> => {
        const stagedAt = files[path];
        if (stagedAt === undefined) return { errors: [{ text: `“${path}” is not in the package` }] };
        const bytes = await readFile(stagedAt);
        loadedBytes += bytes.byteLength;
        if (loadedBytes > SOURCE_MAX_BYTES) {
          const message = `The imported files have more than ${SOURCE_MAX_BYTES} bytes (${SOURCE_MAX_BYTES / MIB} MiB) together; this one has ${bytes.byteLength}. Put data into files below assets/, which host.assets reads`;
          return { errors: [at(path, message)] };
        }
        return load(path, bytes, context);
      });
      // A second barrier: no other import may reach the disk.
      build.onLoad({ filter: /.*/ }, ({ path }) => ({ errors: [{ text: `“${path}” is not in the package` }] }));
      build.onEnd(() => ({ errors: names.listErrors(), warnings: names.listWarnings().map((text) => ({ text })) }));
    },
  };
}

async function load(path: string, bytes: Buffer, context: CompileContext): Promise<OnLoadResult> {
  let source: string;
  try {
    source = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return { errors: [at(path, 'The file is not UTF-8 text')] };
  }
  const loader = LOADERS[posix.extname(path)] ?? 'ts';
  return loader === 'json' ? { contents: source, loader } : compileFile({ path, source, loader }, context);
}

function resolve(files: ModulePaths, hints: NearestFiles, args: OnResolveArgs): OnResolveResult {
  const { path, kind, importer } = args;
  if (kind === 'entry-point') return { path, namespace: NAMESPACE };
  if (kind !== 'import-statement' && kind !== 'dynamic-import') return refusal('Only import statements are allowed');
  if (!isRelative(path)) return refusal(refuseImport(path));
  const target = targetOf(importer, path);
  if (target.startsWith('..')) return refusal(refuseImport(path, 'leaves the package'));
  const found = findModule(files, target);
  if (found === undefined) {
    const reason = isLeftOut(target) ? describeLeftOut(target) : hints.suggest(importer, target);
    return refusal(`${quotePath(path)} is not in the package.${reason}`);
  }
  if (!isCode(found)) return refusal(refuseImport(path, 'is not a code file'));
  return { path: found, namespace: NAMESPACE };
}

/** Whether the path of an import, maybe without its extension, is that of a file or a folder of the author's tools. */
const isLeftOut = (target: string): boolean => isToolFile(target) || isToolFile(`${target}.ts`) || isToolFolder(target);

/** @returns a sentence after a space */
function describeLeftOut(target: string): string {
  const folder = target.split('/').slice(0, -1).join('/');
  const advice = isToolFolder(folder) ? `rename the folder ${quotePath(folder)}` : 'rename it';
  return ` The command line and the console leave it out as part of your tools: ${advice}`;
}

const targetOf = (importer: string, path: string): string => posix.join(posix.dirname(importer), path);

/** Resolves a path in the package as an import does. */
export function findModule(files: ModulePaths, target: string): string | undefined {
  const candidates = ENDINGS.map((ending) => `${target}${ending}`);
  // As in TypeScript, an import may name the .js that a build would make of the .ts.
  if (target.endsWith('.js')) candidates.push(`${target.slice(0, -'.js'.length)}.ts`);
  return candidates.find((candidate) => Object.hasOwn(files, candidate));
}

/** Names the nearest code file where an import finds none. Bounded, because the author chooses the number and length of both. */
export class NearestFiles {
  readonly #paths: readonly string[];
  #hints = 0;

  constructor(files: ModulePaths) {
    const comparable = (path: string) => path.length <= COMPARED_MAX && isCode(path);
    this.#paths = Object.keys(files).filter(comparable).slice(0, CANDIDATES_MAX);
  }

  /** @returns a sentence after a space, or nothing */
  suggest(importer: string, target: string): string {
    if (target.length > COMPARED_MAX || this.#hints >= HINTS_MAX) return '';
    const others = this.#paths.filter((path) => path !== importer);
    if (others.length === 0) return '';
    this.#hints += 1;
    const relative = posix.relative(posix.dirname(importer), closest(target, others));
    return ` The nearest is “${relative.startsWith('.') ? relative : `./${relative}`}”`;
  }
}

export const isCode = (path: string): boolean => LOADERS[posix.extname(path)] !== undefined;
const refusal = (text: string): OnResolveResult => ({ errors: [{ text }] });
const at = (file: string, text: string): PartialMessage => ({ text, location: { file: `${NAMESPACE}:${file}` } });
