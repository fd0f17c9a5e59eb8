/** Runs the shell commands of a page of docs/. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../house/source-files.ts';

const run = promisify(execFile);

/**
 * Runs all shell blocks of a page in their order, as one script that ends at its first failure.
 *
 * @param env variables that the commands use, besides `PATH`
 * @returns what they printed
 */
export async function runShellBlocks(
  page: string,
  env: Readonly<Record<string, string>>,
  cwd: string = root,
): Promise<string> {
  const text = readFileSync(join(root, 'docs', page), 'utf8');
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
  const path = `${dirname(process.execPath)}:${process.env.PATH ?? ''}`;
  const { stdout } = await run('sh', ['-eu', '-c', blocks.join('\n')], { env: { PATH: path, ...env }, cwd });
  return stdout;
}
