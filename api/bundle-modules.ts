/** The virtual file system esbuild sees: the files of one package, reached by relative imports, and nothing else. */
import { readFile } from 'node:fs/promises';
import { posix } from 'node:path';
import type { Loader, OnLoadResult, OnResolveArgs, OnResolveResult, PartialMessage, Plugin } from 'esbuild';
import { closest } from 'fastest-levenshtein';
import { MIB } from '../sdk/limits.ts';

/** Names of modules inside the bundle start with it; it keeps esbuild's own resolver, and so the disk, out of play. */
export const NAMESPACE = 'package';
/** All code of a package together: above it a build takes seconds and the bundle could not be loaded anyway. Bytes. */
export const SOURCE_MAX_BYTES = 8 * MIB;

const LOADERS: Readonly<Record<string, Loader>> = { '.ts': 'ts', '.js': 'js', '.json': 'json' };
/** What is tried, in order, for an import without an extension. */
const ENDINGS = ['', '.ts', '.js', '.json', '/index.ts', '/index.js'] as const;
const ALLOWED = 'A plugin imports .ts, .js and .json files of its own package by relative path, and nothing else';

/** Where the bytes of each file of a package are, by its path in the package. */
export type ModulePaths = Readonly<Record<string, string>>;

/** An esbuild plugin that answers every resolve and every load from the package. */
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
      // Whatever slipped past the first filter must not reach the disk.
      build.onLoad({ filter: /.*/ }, ({ path }) => ({ errors: [{ text: `“${path}” is not in the package` }] }));
    },
  };
}

function load(path: string, bytes: Buffer): OnLoadResult {
  try {
    const contents = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return { contents, loader: LOADERS[posix.extname(path)] ?? 'ts' };
  } catch {
    return { errors: [at(path, 'The file is not UTF-8 text')] };
  }
}

function resolve(files: ModulePaths, args: OnResolveArgs): OnResolveResult {
  const { path, kind, importer } = args;
  if (kind === 'entry-point') return { path, namespace: NAMESPACE };
  if (kind === 'dynamic-import') return refusal('import() is not allowed; use an import statement at the top');
  if (kind !== 'import-statement') return refusal('require is not allowed; use an import statement at the top');
  if (!/^\.\.?(\/|$)/.test(path)) return refusal(`“${path}” cannot be imported. ${ALLOWED}`);
  const target = posix.join(posix.dirname(importer), path);
  if (target.startsWith('..')) return refusal(`“${path}” leaves the package. ${ALLOWED}`);
  const found = findModule(files, target);
  if (found === undefined) return refusal(`“${path}” is not in the package.${suggestion(files, importer, target)}`);
  if (LOADERS[posix.extname(found)] === undefined) return refusal(`“${path}” is no code. ${ALLOWED}`);
  return { path: found, namespace: NAMESPACE };
}

function findModule(files: ModulePaths, target: string): string | undefined {
  const candidates = ENDINGS.map((ending) => `${target}${ending}`);
  // TypeScript's own habit: the import names the .js that a build would have made of the .ts.
  if (target.endsWith('.js')) candidates.push(`${target.slice(0, -'.js'.length)}.ts`);
  return candidates.find((candidate) => Object.hasOwn(files, candidate));
}

function suggestion(files: ModulePaths, importer: string, target: string): string {
  const code = Object.keys(files).filter((path) => path !== importer && LOADERS[posix.extname(path)] !== undefined);
  if (code.length === 0) return '';
  const relative = posix.relative(posix.dirname(importer), closest(target, code));
  return ` The nearest is “${relative.startsWith('.') ? relative : `./${relative}`}”`;
}

const refusal = (text: string): OnResolveResult => ({ errors: [{ text }] });
const at = (file: string, text: string): PartialMessage => ({ text, location: { file: `${NAMESPACE}:${file}` } });
