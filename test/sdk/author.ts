/** A new author's folder: empty but for the packed SDK, which a soak run installs with npm without a network; and its `bulkhead`. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { basename, delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stop as stopEsbuild } from 'esbuild';
import rootTest from 'tap';
import { buildPackage } from '../../pack/build-package.ts';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';
import { amount } from '../runner/soak.ts';

const modules = fileURLToPath(new URL('../../node_modules', import.meta.url));
const run = promisify(execFile);

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
export interface Author {
  /** Where the SDK is installed. */
  readonly folder: string;
  /** Runs the installed command, below `folder`. */
  bulkhead(args: readonly string[], options?: { in?: string; env?: Readonly<Record<string, string>> }): Promise<Said>;
  /** Starts one that goes on until it is interrupted. */
  start(args: readonly string[], folder: string): Going;
}
interface Going {
  /** All that it has said so far. */
  readOutput(): string;
  type(line: string): void;
  /** Ctrl-C. @returns the exit code */
  interrupt(): Promise<number>;
}

let shared: Promise<string> | undefined;

/** `@bulkhead/sdk` as it is published, in a folder. Built by the first file of this process that asks for it. */
export function sharePackage(): Promise<string> {
  shared ??= buildShared();
  return shared;
}

async function buildShared(): Promise<string> {
  const scratch = await temporaryFolder(rootTest);
  await buildPackage(join(scratch, 'package'));
  await stopEsbuild();
  await linkPackages(scratch, ['esbuild']);
  return join(scratch, 'package');
}

/** Packages that npm would fetch, as links to those that the tests' own npm installed. */
async function linkPackages(folder: string, names: readonly string[]): Promise<void> {
  await mkdir(join(folder, 'node_modules'));
  for (const name of names) await symlink(join(modules, name), join(folder, 'node_modules', name));
}

/** Packs the SDK and installs it with npm. */
async function installSdk(folder: string, built: string, path: string): Promise<void> {
  // As `npm pack` does, which package.test.ts runs: it takes a second of processor time.
  await run('tar', ['czf', join(folder, 'sdk.tgz'), '-C', dirname(built), basename(built)]);
  await writeFile(join(folder, 'package.json'), '{ "private": true }');
  await linkPackages(folder, ['esbuild', 'zod']);
  const options = ['--ignore-scripts', '--omit=optional', '--offline', '--no-audit', '--no-fund'];
  await run('npm', ['install', ...options, './sdk.tgz'], { cwd: folder, env: { ...process.env, PATH: path } });
}

/** Puts links where npm would install the SDK: npm takes seconds of processor time. */
async function linkSdk(folder: string, built: string): Promise<void> {
  const modules = join(folder, 'node_modules');
  await mkdir(join(modules, '@bulkhead'), { recursive: true });
  await symlink(built, join(modules, '@bulkhead/sdk'));
  await mkdir(join(modules, '.bin'));
  await symlink('../@bulkhead/sdk/dist/bulkhead.js', join(modules, '.bin/bulkhead'));
}

/** Installs the SDK. @param env what every command of this author is run with */
export async function newAuthor(t: Teardown, env: Readonly<Record<string, string>> = {}): Promise<Author> {
  const scratch = await temporaryFolder(t);
  const folder = join(scratch, 'author');
  await mkdir(folder);
  const built = await sharePackage();
  const path = `${dirname(process.execPath)}${delimiter}${process.env.PATH ?? ''}`;
  await amount({ quick: linkSdk, soak: installSdk })(folder, built, path);
  const program = join(folder, 'node_modules/.bin/bulkhead');
  const own = { PATH: path, HOME: join(scratch, 'home'), ...env };
  return {
    folder,
    start(args, within) {
      const child = spawn(program, [...args], { cwd: join(folder, within), env: own });
      let output = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => {
          output += text;
        });
      const ended = once(child, 'close');
      t.teardown(async () => {
        child.kill('SIGKILL');
        await ended;
      });
      return {
        readOutput: () => output,
        type: (line) => void child.stdin.write(`${line}\n`),
        async interrupt() {
          child.kill('SIGINT');
          return (await ended)[0] as number;
        },
      };
    },
    async bulkhead(args, options = {}) {
      const cwd = join(folder, options.in ?? '.');
      return run(program, [...args], { cwd, env: { ...own, ...options.env } }).then(
        ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
        ({ code, stdout, stderr }: Said) => ({ code, stdout, stderr }),
      );
    },
  };
}
