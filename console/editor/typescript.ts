/**
 * What the editor knows of a plugin's world: the SDK's globals and the compiler options that the tests of the SDK check
 * packages with, so that red here is red there. No DOM, no Node: what is not in the globals is not there at run time.
 */
import {
  ModuleKind,
  ModuleResolutionKind,
  typescriptDefaults,
} from 'monaco-editor/languages/features/typescript/register.js';
import globals from '../../sdk/globals.d.ts?raw';
import project from '../../sdk/tsconfig.plugin.json?raw';

type Options = Parameters<typeof typescriptDefaults.setCompilerOptions>[0];
/** Names of a tsconfig stand for these in the compiler's own interface; the editor's types know fewer. */
const NAMED: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  target: { es2024: 11 },
  module: { esnext: ModuleKind.ESNext },
  moduleResolution: { bundler: 100, node: ModuleResolutionKind.NodeJs },
  moduleDetection: { force: 3 },
};

let isTold = false;

/** Once for all editors of the page. */
export function configureTypeScript(): void {
  if (isTold) return;
  isTold = true;
  typescriptDefaults.setCompilerOptions(readOptions(project));
  typescriptDefaults.setExtraLibs([{ content: globals, filePath: 'file:///sdk/globals.d.ts' }]);
  // Files of the package import each other whether they are in sight or not.
  typescriptDefaults.setEagerModelSync(true);
}

function readOptions(text: string): Options {
  const { compilerOptions } = JSON.parse(text.replaceAll(/^\s*\/\/.*$/gm, '')) as { compilerOptions: Options };
  return Object.fromEntries(
    Object.entries(compilerOptions).map(([name, value]) => [name, NAMED[name]?.[String(value)] ?? value]),
  );
}
