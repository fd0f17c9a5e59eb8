/** Configures the editor's TypeScript compiler with the SDK's globals and compiler options, without DOM and Node types. */
import {
  ModuleKind,
  ModuleResolutionKind,
  typescriptDefaults,
} from 'monaco-editor/languages/features/typescript/register.js';
import globals from '../../sdk/globals.d.ts?raw';
import project from '../../sdk/tsconfig.plugin.json?raw';

type Options = Parameters<typeof typescriptDefaults.setCompilerOptions>[0];
/** The compiler API needs numbers instead of the names in a tsconfig. */
const NAMED: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  target: { es2024: 11 },
  module: { esnext: ModuleKind.ESNext },
  moduleResolution: { bundler: 100, node: ModuleResolutionKind.NodeJs },
  moduleDetection: { force: 3 },
};

let isConfigured = false;

export function configureTypeScript(): void {
  if (isConfigured) return;
  isConfigured = true;
  typescriptDefaults.setCompilerOptions(readOptions(project));
  typescriptDefaults.setExtraLibs([{ content: globals, filePath: 'file:///sdk/globals.d.ts' }]);
  // The compiler needs all files, because they import each other.
  typescriptDefaults.setEagerModelSync(true);
}

function readOptions(text: string): Options {
  const { compilerOptions } = JSON.parse(text.replaceAll(/^\s*\/\/.*$/gm, '')) as { compilerOptions: Options };
  return Object.fromEntries(
    Object.entries(compilerOptions).map(([name, value]) => [name, NAMED[name]?.[String(value)] ?? value]),
  );
}
