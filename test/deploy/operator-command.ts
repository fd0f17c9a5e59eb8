/** Runs operator commands, in this process or as the process they are. */
import { execFile, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { runCommandLine } from '../../deploy/operator/run-command.ts';
import { bareEnvironment } from '../fixtures/bare-environment.ts';

const SCRIPT = fileURLToPath(new URL('../../deploy/operator/operator.ts', import.meta.url));

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const environment = (env: Readonly<Record<string, string>>) => ({
  // A folder without a developer's `.env`.
  cwd: '/',
  env: { ...bareEnvironment, ...env },
});

/** Runs a command in this process, which spares a start. */
export async function operator(env: Readonly<Record<string, string>>, ...words: string[]): Promise<Said> {
  let stdout = '';
  let stderr = '';
  const code = await runCommandLine(words, {
    readEnvironment: () => env,
    print: (line) => {
      stdout += `${line}\n`;
    },
    printError: (line) => {
      stderr += `${line}\n`;
    },
  });
  return { code, stdout, stderr };
}

/** Runs a command as a process. */
export function operatorProcess(env: Readonly<Record<string, string>>, ...words: string[]): Promise<Said> {
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT, ...words], environment(env), (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
    );
  });
}

/** Starts a command as a process that a test can end. */
export const startOperator = (env: Readonly<Record<string, string>>, ...words: string[]) =>
  spawn(process.execPath, [SCRIPT, ...words], { ...environment(env), stdio: ['ignore', 'ignore', 'pipe'] });

/** Runs a command and ends it by force at a line of its progress. */
export async function cutOff(env: Readonly<Record<string, string>>, at: RegExp, ...words: string[]): Promise<void> {
  const child = startOperator(env, ...words);
  createInterface({ input: child.stderr }).on('line', (line) => at.test(line) && child.kill('SIGKILL'));
  await new Promise((resolve) => child.once('close', resolve));
}
