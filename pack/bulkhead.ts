/** The command line with the service's own checks. */
import { fstatSync } from 'node:fs';
import { abortOnSignals } from '../conform/interruption.ts';
import { runCommandLine } from '../sdk/cli/command-line.ts';
import { exitCodes } from '../sdk/cli/failure.ts';
import type { FileId } from '../sdk/cli/package-folder.ts';
import sdk from '../sdk/package.json' with { type: 'json' };
import { localTools } from './local-tools.ts';

/** File descriptors of standard output and standard error. */
const STANDARD_OUTPUTS = [1, 2];

// `dev` still restores the installed version then. A second Ctrl-C ends the process.
const interrupted = abortOnSignals();

const outputClosed = new AbortController();
// Exiting here would leave a command half done: `publish | head -1` without its upload, `dev | less` with the draft installed.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  const isFirst = !outputClosed.signal.aborted;
  outputClosed.abort();
  // A reader may close the pipe early (`| head`); that is not an error. A full disk is.
  if (error.code === 'EPIPE') return;
  process.exitCode = exitCodes.failed;
  if (isFirst)
    process.stderr.write(
      `error Standard output cannot be written (${error.code ?? error.message}). Redirect it to a file on a disk with room.\n`,
    );
});
// Notes that cannot be printed change nothing in the command.
process.stderr.on('error', () => undefined);

const exitCode = await runCommandLine(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  folder: readCurrentFolder(),
  localTools,
  signal: interrupted,
  outputClosed: outputClosed.signal,
  version: sdk.version,
  outputIds: STANDARD_OUTPUTS.flatMap(readFileId),
});
if (exitCode !== exitCodes.ok) process.exitCode = exitCode;

/**
 * Returns the file of a descriptor; nothing for a terminal, a pipe or a device, or if the descriptor is closed. As large integers:
 * where the last numbers that Node read are those of a pipe, Node 22 follows no link to a module, and esbuild, which pnpm and the
 * tests link, does not find its program.
 */
function readFileId(descriptor: number): FileId[] {
  try {
    const found = fstatSync(descriptor, { bigint: true });
    return found.isFile() ? [{ dev: Number(found.dev), ino: Number(found.ino) }] : [];
  } catch {
    return [];
  }
}

/** Null if the folder was removed, such as by a change of the Git branch in another terminal. */
function readCurrentFolder(): string | null {
  try {
    return process.cwd();
  } catch {
    return null;
  }
}
