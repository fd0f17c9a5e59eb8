/** Runs one command on a connection, with its input, limited output and exit. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientChannel } from 'ssh2';
import { KIB, MIB, SECOND } from '../../../sdk/contract/limits.ts';
import { BodyChunks } from '../../../service/http/body-reader.ts';
import { HostError } from '../host-call.ts';
import type { SshConnection } from './connections.ts';

/** Maximum bytes of each output. Further bytes are read and dropped, so that the command can end. */
const OUTPUT_MAX_BYTES = 256 * KIB;
/** Maximum bytes that the host may send while a command runs, with those of the protocol: 64 times the output that is kept. */
const RECEIVED_MAX_BYTES = 16 * MIB;
/** Maximum bytes of each output as JSON, where one byte may take six: both must fit into one response. */
const OUTPUT_MAX_JSON = 448 * KIB;
const TRUNCATED = '\n[truncated]\n';
/** Time between the first signal and SIGKILL. Milliseconds. */
const KILL_AFTER_MS = SECOND;
/** Dropbear signals only the shell that runs the line, and some servers ignore signals. */
const MAY_RUN_ON = 'some SSH servers let it run on';

/** The command was started, and how far it ran is unknown. */
export class UnfinishedCommandError extends HostError {}

export interface RemoteEnd {
  /** Null: ended by a signal. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}
export interface RemoteRun {
  readonly line: string;
  readonly input: string;
  readonly timeoutMs: number;
  /** Tells the host to end the command when aborted. */
  readonly signal: AbortSignal;
}

/**
 * Runs the line and waits for its end.
 *
 * @throws HostError when its host was told to end it or the connection broke; then the connection must not be reused
 */
export async function runRemote({ client, socket }: SshConnection, run: RemoteRun): Promise<RemoteEnd> {
  const late = AbortSignal.timeout(run.timeoutMs);
  const over = AbortSignal.any([late, run.signal]);
  const why = () =>
    late.aborted
      ? new UnfinishedCommandError(
          `the command took longer than ${run.timeoutMs} ms, so its host was told to end it; ${MAY_RUN_ON}`,
        )
      : new UnfinishedCommandError(`the call is over, so the host was told to end the command; ${MAY_RUN_ON}`);
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  const onStop = () => reject(why());
  over.addEventListener('abort', onStop, { once: true });
  client.once('close', onClose);
  function onClose(): void {
    reject(new UnfinishedCommandError('the connection to the host broke while the command was running'));
  }
  const endLimit = socket.limitArrivals(RECEIVED_MAX_BYTES, () =>
    reject(
      new UnfinishedCommandError(
        `the host sent more than ${RECEIVED_MAX_BYTES} bytes, so it was told to end the command; ${MAY_RUN_ON}. Write a large output to a file of the host`,
      ),
    ),
  );
  let channel: ClientChannel | null = null;
  try {
    if (over.aborted) throw why();
    const opened = open(client, run.line);
    channel = await Promise.race([opened, stopped]);
    return await Promise.race([readOutput(channel, run.input), stopped]);
  } catch (error) {
    if (channel !== null) await kill(channel);
    throw error;
  } finally {
    over.removeEventListener('abort', onStop);
    client.off('close', onClose);
    endLimit();
  }
}

function open(client: SshConnection['client'], line: string): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    try {
      client.exec(line, (error, channel) =>
        error ? reject(new HostError('the host does not start commands on this connection')) : resolve(channel),
      );
    } catch {
      reject(new HostError('the host ended the connection before the command was started'));
    }
  });
}

async function readOutput(channel: ClientChannel, input: string): Promise<RemoteEnd> {
  const [stdout, stderr] = [new Output(), new Output()];
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  let exitCode: number | null = null;
  channel.on('data', (part: Buffer) => stdout.add(part));
  channel.stderr.on('data', (part: Buffer) => stderr.add(part));
  // The command may end without reading its input.
  channel.on('error', () => undefined);
  // Not `exit`: for a short command it arrives in the packet that opens the channel, before a listener can exist.
  channel.once('close', (code: number | null | undefined) => {
    exitCode = code ?? null;
    resolve();
  });
  // Do not end the channel's input: the line reads a fixed number of bytes, and signals need an open input.
  if (input !== '') channel.write(input);
  await closed;
  return { exitCode, stdout: stdout.text(), stderr: stderr.text() };
}

/** Sends a signal, then SIGKILL, then closes the channel; the caller closes the connection. */
async function kill(channel: ClientChannel): Promise<void> {
  if (channel.closed) return;
  const gone = new AbortController();
  channel.once('close', () => gone.abort());
  channel.on('error', () => undefined);
  channel.resume();
  channel.stderr.resume();
  try {
    channel.signal('TERM');
    await sleep(KILL_AFTER_MS, undefined, { signal: gone.signal });
    channel.signal('KILL');
    channel.close();
  } catch {
    // The channel is closed already.
  }
}

/** Returns the beginning of an output as text. */
class Output {
  readonly #chunks = new BodyChunks();
  #isCut = false;

  add(part: Buffer): void {
    const kept = part.subarray(0, OUTPUT_MAX_BYTES - this.#chunks.bytes);
    // Copy the bytes: a slice would keep the whole packet in memory.
    if (kept.length > 0) this.#chunks.add(Buffer.from(kept));
    if (kept.length < part.length) this.#isCut = true;
  }

  text(): string {
    return cutOutput(this.#chunks.takeJoined().toString('utf8'), this.#isCut);
  }
}

/** @param isCut whether the text is a beginning already @returns what fits into a response, marked if it is a beginning */
export function cutOutput(text: string, isCut = false): string {
  let kept = text;
  let marked = isCut ? kept + TRUNCATED : kept;
  while (Buffer.byteLength(JSON.stringify(marked)) > OUTPUT_MAX_JSON) {
    kept = kept.slice(0, kept.length >> 1).toWellFormed();
    marked = kept + TRUNCATED;
  }
  return marked;
}
