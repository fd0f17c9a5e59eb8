/** The programs of jailed children, bundled once a run: `npm test` writes them to a folder that the files read. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheProgram } from '../../supervisor/jail/cached-program.ts';

/** The folder of what the files of a run share, the built programs among it. Set by `npm test`. */
export const RUN_FOLDER_VARIABLE = 'BULKHEAD_TEST_RUN_FOLDER';
/** The file of each program, and the function of `build-child.ts` that bundles it. */
const builders = { 'child.cjs': 'buildChild', 'inspected-child.cjs': 'buildInspectedChild' } as const;
type Program = keyof typeof builders;

const programs = new Map<Program, Promise<string>>();

/** The program of every child. */
export const childProgram = (): Promise<string> => program('child.cjs');

/** The program with its code cache, as a supervisor starts it. */
export async function childPrograms(): Promise<{ readonly program: string; readonly cachedProgram: Buffer | null }> {
  const program = await childProgram();
  return { program, cachedProgram: await cacheProgram(program) };
}

/** The program of a child whose owner debugs it. */
export const inspectedChildProgram = (): Promise<string> => program('inspected-child.cjs');

/** Builds all programs into the folder. */
export async function writeChildPrograms(folder: string): Promise<void> {
  for (const name of Object.keys(builders) as Program[]) await writeFile(join(folder, name), await buildProgram(name));
}

function program(name: Program): Promise<string> {
  const known = programs.get(name) ?? readOrBuild(name);
  programs.set(name, known);
  return known;
}

async function readOrBuild(name: Program): Promise<string> {
  const folder = process.env[RUN_FOLDER_VARIABLE];
  return folder === undefined ? buildProgram(name) : readFile(join(folder, name), 'utf8');
}

async function buildProgram(name: Program): Promise<string> {
  // Test files that find the programs built do without the bundler.
  const [builds, esbuild] = await Promise.all([import('../../sandbox-child/build-child.ts'), import('esbuild')]);
  const text = await builds[builders[name]]();
  // The bundler's own process would outlive the test.
  await esbuild.stop();
  return text;
}
