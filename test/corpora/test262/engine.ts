/** Runs cases of Test262 in processes, and survives those that hang or crash. */
import { type ChildProcess, fork } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildChild } from '../../../sandbox-child/build-child.ts';

/** A process that says nothing has hung. Milliseconds. */
const SILENCE_MS = 20_000;
export interface Engine {
  readonly program: string;
  /** Node's. */
  readonly flags: readonly string[];
}

export const nodeEngine: Engine = { program: fileURLToPath(new URL('node-engine.ts', import.meta.url)), flags: [] };
/** Node's, with frozen intrinsics and nothing else of a plugin. */
export const frozenEngine: Engine = { program: fileURLToPath(new URL('frozen-engine.ts', import.meta.url)), flags: [] };

/** The realm of a plugin, with the flags of its process that programs can see. @param folder for the built program */
export async function buildRealmEngine(folder: string): Promise<Engine> {
  const program = join(folder, 'realm-engine.cjs');
  await writeFile(program, await buildChild(fileURLToPath(new URL('realm-engine.ts', import.meta.url))));
  return { program, flags: ['--disable-proto=delete', '--stack-size=984'] };
}

export interface EngineCase {
  readonly id: string;
  /** Holds the program. */
  readonly file: string;
  readonly isAsync: boolean;
  /** The name of the error that it must throw. */
  readonly negative: string | null;
}
/** `error` is null where the case passed. */
export interface EngineResult {
  readonly id: string;
  readonly error: string | null;
}

/** Runs all cases. @returns the error of each that failed, by its id */
export async function runCases({ program, flags }: Engine, cases: readonly EngineCase[]): Promise<Map<string, string>> {
  const failed = new Map<string, string>();
  const shares = Array.from({ length: availableParallelism() }, (_, at) =>
    cases.filter((_case, index) => index % availableParallelism() === at),
  );
  await Promise.all(
    shares.map(async (share) => {
      for (let done = 0; done < share.length; ) {
        const ended = await runUntilEnd({ program, flags }, share.slice(done), failed);
        done += ended.done;
        const hung = share[done];
        if (hung === undefined || ended.isPlanned) continue;
        failed.set(hung.id, 'the process hung or crashed');
        done += 1;
      }
    }),
  );
  return failed;
}

/** Runs cases in one process. @returns how many had a result before it ended, and whether it ended by itself */
async function runUntilEnd(
  { program, flags }: Engine,
  cases: readonly EngineCase[],
  failed: Map<string, string>,
): Promise<{ done: number; isPlanned: boolean }> {
  const child: ChildProcess = fork(program, {
    execArgv: [...flags, '--no-warnings'],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  const ended = Promise.withResolvers<number | null>();
  const silence = setTimeout(() => child.kill('SIGKILL'), SILENCE_MS);
  let done = 0;
  child.on('message', ({ id, error }: EngineResult) => {
    silence.refresh();
    if (error !== null) failed.set(id, error);
    done += 1;
    if (done === cases.length) child.kill('SIGKILL');
  });
  child.on('exit', (code) => ended.resolve(code));
  child.send([...cases]);
  const code = await ended.promise;
  clearTimeout(silence);
  return { done, isPlanned: code === 0 };
}
