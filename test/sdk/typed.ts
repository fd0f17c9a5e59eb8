/** `bulkhead` run in this process, as if it had been typed. */
import { runCommandLine } from '../../sdk/cli/command-line.ts';
import type { Toolbox } from '../../sdk/cli/toolbox.ts';
import type { Said } from './author.ts';

export interface Typed {
  readonly folder?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly toolbox?: Toolbox;
}
const noTools: Toolbox = { check: () => Promise.reject(new Error('nothing is checked here')) };

export async function bulkhead(
  args: readonly string[],
  { folder = '/', env = {}, toolbox = noTools }: Typed = {},
): Promise<Said> {
  let [stdout, stderr] = ['', ''];
  const code = await runCommandLine(args, {
    ...{
      folder,
      toolbox,
      env: { HOME: '/nonexistent', ...env },
      version: '0.0.0',
      signal: new AbortController().signal,
    },
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
  });
  return { code, stdout, stderr };
}
