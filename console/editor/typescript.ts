/** Configures the editor's TypeScript compiler with the SDK's globals and compiler options, without DOM and Node types. */
import {
  ModuleKind,
  ModuleResolutionKind,
  typescriptDefaults,
} from 'monaco-editor/languages/features/typescript/register.js';
import globals from '../../sdk/globals.d.ts?raw';
import project from '../../sdk/tsconfig.plugin.json?raw';

type Options = Parameters<typeof typescriptDefaults.setCompilerOptions>[0];
type Project = Options & { readonly lib: readonly string[] };
/** The compiler API needs numbers instead of the names in a tsconfig, and file names instead of library names. */
const NAMED: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  target: { es2024: 11 },
  module: { esnext: ModuleKind.ESNext },
  moduleResolution: { bundler: 100, node: ModuleResolutionKind.NodeJs },
  moduleDetection: { force: 3 },
};

/** Classes of `Temporal`: both types and values. */
const TEMPORAL_CLASSES = [
  ...(['Duration', 'Instant', 'PlainDate', 'PlainDateTime', 'PlainMonthDay'] as const),
  ...(['PlainTime', 'PlainYearMonth', 'ZonedDateTime'] as const),
] as const;
/** Monaco's TypeScript has no declarations of `Temporal`, which plugins have. Version 6 brings them. */
const TEMPORAL = `declare namespace Temporal {
  const Now: any;
  ${TEMPORAL_CLASSES.map((name) => `type ${name} = any; const ${name}: any;`).join('\n  ')}
}
interface Date { toTemporalInstant(): Temporal.Instant; }`;

export function configureTypeScript(): void {
  typescriptDefaults.setCompilerOptions(readOptions(project));
  typescriptDefaults.setExtraLibs([
    { content: globals, filePath: 'file:///sdk/globals.d.ts' },
    { content: TEMPORAL, filePath: 'file:///sdk/temporal.d.ts' },
  ]);
  // The compiler needs all files, because they import each other.
  typescriptDefaults.setEagerModelSync(true);
}

let checks = 0;

/** Checks all files. Monaco itself checks only the file that changed, and all when a library changes. */
export function recheckFiles(): void {
  checks += 1;
  typescriptDefaults.addExtraLib(`// Check ${checks}`, 'file:///sdk/checks.d.ts');
}

function readOptions(text: string): Options {
  const { compilerOptions } = JSON.parse(text.replaceAll(/^[^\S\n]*\/\/.*$/gm, '')) as { compilerOptions: Project };
  const named = Object.entries(compilerOptions).map(([name, value]) => [name, NAMED[name]?.[String(value)] ?? value]);
  return { ...Object.fromEntries(named), lib: compilerOptions.lib.map((name) => `lib.${name}.d.ts`) };
}
