/** `bulkhead mcp`: serves all installed plugins as a Model Context Protocol server on standard input and output. */
import { ReadableStream, TransformStream } from 'node:stream/web';
import { pause } from '../../session/pause.ts';
import { BulkheadError } from '../../session/transport.ts';
import type { Command } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, isTransient, isUnreachable } from '../failure.ts';
import { McpBridge } from '../mcp-bridge.ts';
import { deleteTemporarySession } from '../test-session.ts';

/** Pause before a service that is away is called again. Milliseconds. */
const RETRY_MS = 1_000;

export const mcp: Command = {
  name: 'mcp',
  summary: 'Serve your installed plugins to an MCP client that starts a command',
  options: [
    { flags: '--session <id>', doc: 'session to use (default: a temporary one)' },
    { flags: '--agent <id>', doc: 'agent of a temporary session (default: mcp)' },
  ],
  examples: ['mcp', 'mcp --session 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11'],
  endsWithOutput: true,
  async run(context, args) {
    const sessionId = args.text('session');
    const agentId = args.text('agent') ?? 'mcp';
    // With a key, a start whose answer was lost can be repeated.
    const temporary = { agentId, agentName: 'MCP client', key: crypto.randomUUID() };
    const input = readAhead(context.readLines());
    const { transport, session } = await waitForService(context, input.ended, async () => {
      const client = await context.getSessions();
      const session = sessionId === undefined ? await client.start(temporary) : client.open(sessionId);
      if (sessionId !== undefined) await session.look({ signal: context.signal });
      return { transport: await context.getSessionTransport(), session };
    });
    const bridge = new McpBridge(transport, `/sessions/${encodeURIComponent(session.id)}/mcp`, {
      lines: input.lines,
      // Standard output carries protocol messages only.
      send: (message) => context.output.write(`${JSON.stringify(message)}\n`),
      signal: context.signal,
    });
    try {
      await bridge.run();
    } finally {
      if (sessionId === undefined) await deleteTemporarySession(session);
    }
    return undefined;
  },
};

interface Input {
  readonly lines: AsyncIterable<string>;
  /** Aborts when the client has closed its input, or the command was interrupted. */
  readonly ended: AbortSignal;
}

/** Reads all that comes, so that the end of the input is noticed before the bridge reads it. */
function readAhead(lines: AsyncIterable<string>): Input {
  const ended = new AbortController();
  const unbounded = { highWaterMark: Number.POSITIVE_INFINITY };
  const { readable, writable } = new TransformStream<string, string>(undefined, undefined, unbounded);
  // The bridge gets an error from `readable`.
  const reading = ReadableStream.from(lines).pipeTo(writable);
  reading.catch(() => undefined).finally(() => ended.abort());
  return { lines: readable, ended: ended.signal };
}

/**
 * Repeats a call while the service is away. MCP clients may start before the service, as at a login, and do not start a command again
 * that has ended.
 *
 * @throws the error of the last call: the service refuses it, or is away when the input ends
 */
async function waitForService<T>(context: Context, ended: AbortSignal, call: () => Promise<T>): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await call();
    } catch (error) {
      if (!isAway(error) || ended.aborted) throw error;
      if (isFirst) context.output.printNote(`${(await context.explainError(error)).message} \`mcp\` waits for it.`);
      await pause(RETRY_MS, ended).catch(() => {
        throw error;
      });
    }
  }
}

function isAway(error: unknown): boolean {
  if (error instanceof CommandError) return error.code === 'away';
  return error instanceof BulkheadError ? isTransient(error) : isUnreachable(error);
}
