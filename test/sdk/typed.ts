/** `bulkhead` run in this process, as if it had been typed. */
import { Readable } from 'node:stream';
import { runCommandLine } from '../../sdk/cli/command-line.ts';
import type { LocalTools } from '../../sdk/cli/local-tools.ts';
import type { Said } from './author.ts';

export interface Typed {
  readonly folder?: string | null;
  readonly env?: Readonly<Record<string, string>>;
  readonly localTools?: LocalTools;
  readonly signal?: AbortSignal;
  /** What is piped into it. */
  readonly input?: string;
}
export const noTools: LocalTools = {
  requireLayout: () => Promise.reject(new Error('nothing is checked here')),
  check: () => Promise.reject(new Error('nothing is checked here')),
  conformRuntime: () => Promise.reject(new Error('no runtime is checked here')),
};

export async function bulkhead(
  args: readonly string[],
  { folder = '/', env = {}, localTools = noTools, signal = new AbortController().signal, input }: Typed = {},
): Promise<Said> {
  let [stdout, stderr] = ['', ''];
  const code = await runCommandLine(args, {
    folder,
    localTools,
    env: { HOME: '/nonexistent', ...env },
    version: '0.0.0',
    signal,
    stdin: input === undefined ? undefined : Readable.from([input]),
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
  });
  return { code, stdout, stderr };
}
