/** A new author's folder: empty but for the packed SDK, installed by npm without a network; and its `bulkhead`. */
import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stop as stopEsbuild } from 'esbuild';
import { buildPackage } from '../../pack/build.ts';
import { type Teardown, temporaryFolder } from '../harness.ts';

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
  // What npm would fetch lies there already, as links to where the tests' own npm put it.
  await mkdir(join(folder, 'node_modules'));
  for (const name of ['esbuild', 'zod']) await symlink(join(modules, name), join(folder, 'node_modules', name));
  await npm(['install', '--ignore-scripts', '--omit=optional', `./${filename}`]);
  return {
    folder,
    async bulkhead(args, options = {}) {
      const own = { PATH: path, HOME: join(scratch, 'home'), ...env, ...options.env };
      const cwd = join(folder, options.in ?? '.');
      return run(join(folder, 'node_modules/.bin/bulkhead'), [...args], { cwd, env: own }).then(
        ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
        ({ code, stdout, stderr }: Said) => ({ code, stdout, stderr }),
      );
    },
  };
}
