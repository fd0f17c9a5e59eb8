/** Bundles a use of a library to one file, as an author does before publishing. */
import { builtinModules } from 'node:module';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import type { LibraryCase } from './library-cases.ts';

const BUILT_IN = new RegExp(`^(node:.*|${builtinModules.join('|')})$`);

/** The few members of Node's modules that SDKs read while they load, as an author writes them once. */
const STAND_INS: Readonly<Record<string, string>> = {
  os: `export const platform = () => 'plugin'; export const release = () => ''; export default { platform, release };`,
  path: `export const basename = (path) => String(path).split('/').at(-1); export default { basename };`,
  querystring: `export const stringify = (fields) => String(new URLSearchParams(fields)); export default { stringify };`,
};

/** Replaces Node's modules by stand-ins or empty ones, as bundlers for browsers do: a plugin has no files and no sockets. */
const emptyBuiltIns: Plugin = {
  name: 'built-in modules',
  setup(builder) {
    builder.onResolve({ filter: BUILT_IN }, async ({ path, resolveDir, kind, pluginData }) => {
      if (pluginData === 'asked') return null;
      const name = path.replace(/^node:/, '');
      // `events` and `buffer` have packages of the same name.
      const own = await builder.resolve(`${name}/`, { resolveDir, kind, pluginData: 'asked' });
      return own.errors.length === 0 ? own : { path: name, namespace: 'built-in' };
    });
    builder.onLoad({ filter: /.*/, namespace: 'built-in' }, ({ path }) => ({
      contents: STAND_INS[path] ?? 'module.exports = {};',
    }));
  },
};

/** @param folder where the library is installed. @returns a module that exports `run(words, record)` */
export async function bundleLibrary({ imports, body, inject }: LibraryCase, folder: string): Promise<string> {
  const contents = `${imports}\nexport const run = async (words, record) => { ${body} };`;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: folder },
    bundle: true,
    write: false,
    inject: inject === undefined ? [] : [fileURLToPath(new URL(inject, import.meta.url))],
    format: 'esm',
    platform: 'browser',
    conditions: ['worker', 'module'],
    target: 'es2024',
    define: {
      'process.env.NODE_ENV': '"production"',
      'process.title': '"plugin"',
      'process.version': '"v26.0.0"',
    },
    logLevel: 'silent',
    plugins: [emptyBuiltIns],
  });
  return outputFiles[0]?.text ?? '';
}
