/** A new author's folder: empty but for the packed SDK, installed by npm without a network; and its `bulkhead`. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stop as stopEsbuild } from 'esbuild';
import { buildPackage } from '../../pack/build-package.ts';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';

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

/** Packs and installs. @param env what every command of this author is run with */
export async function newAuthor(t: Teardown, env: Readonly<Record<string, string>> = {}): Promise<Author> {
  const scratch = await temporaryFolder(t);
  const folder = join(scratch, 'author');
  await mkdir(folder);
  await buildPackage(join(scratch, 'sdk'));
  await stopEsbuild();
  const path = `${dirname(process.execPath)}${delimiter}${process.env.PATH ?? ''}`;
  const npm = (args: readonly string[]) =>
    run('npm', [...args, '--offline', '--no-audit', '--no-fund'], { cwd: folder, env: { ...process.env, PATH: path } });
  const { stdout } = await npm(['pack', '--json', join(scratch, 'sdk')]);
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  await writeFile(join(folder, 'package.json'), '{ "private": true }');
  // Packages that npm would fetch are there already, as links to those that the tests' own npm installed.
  await mkdir(join(folder, 'node_modules'));
  for (const name of ['esbuild', 'zod']) await symlink(join(modules, name), join(folder, 'node_modules', name));
  await npm(['install', '--ignore-scripts', '--omit=optional', `./${filename}`]);
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
