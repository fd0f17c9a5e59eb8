/** One open inspector: connects a debugger to the child that serves an author's draft. */
import type { WebSocket } from 'ws';
import type { Problem } from '../../../sdk/contract/errors.ts';
import { isRecord } from '../../../sdk/contract/is-record.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { createRateLimitProblem } from '../../../service/http/rate-limits.ts';
import { COSTLY_BYTES, waitForLoopTurn } from '../../../service/timing/loop-turns.ts';
import { TokenBucket } from '../../../service/timing/token-bucket.ts';
import type { Child } from '../child.ts';
import type { Inspector } from '../installation-runner.ts';
import { MessagePipe } from './message-pipe.ts';

/** What the request that opened the inspector is notified of. */
export type InspectionEvent =
  | { readonly type: 'open'; readonly path: string }
  | { readonly type: 'moved' | 'attached' | 'detached' }
  | { readonly type: 'closed'; readonly reason: string };

/** When a slow debugger has more unsent bytes than this, reading from the child pauses. */
const CLIENT_BACKLOG_BYTES = 4_194_304;
/** A WebSocket's close reason has at most 123 bytes. The reasons are short texts of the supervisor. Characters. */
const REASON_MAX = 120;
/** WebSocket close codes, of RFC 6455 and IANA's registry. */
const CLOSE = { goingAway: 1001, malformed: 1007, policy: 1008, restarted: 1012, tryLater: 1013 } as const;

/**
 * Debuggers that connect to one inspector, also those that are refused: each may keep its connection for a second after the refusal, and
 * one that is attached writes two lines to the plugin's log.
 */
const CONNECTION_RATE = { burst: 10, perSecond: 0.5 };
const CONNECTION_RULE = '10 debuggers at once and 30 per minute of one inspector';

/** The longest command changes the source of a whole bundle. Bytes. */
export const COMMAND_MAX_BYTES = limits.frameBytes;
const METHOD_MAX_CHARS = 200;

export class Inspection implements Inspector {
  /** Authorizes the WebSocket. */
  readonly token: string;
  readonly #onEvent: (event: InspectionEvent) => void;
  #child: Child | null = null;
  #pipe: MessagePipe | null = null;
  #client: WebSocket | null = null;
  /** Resolves when the commands that have arrived were forwarded. */
  #forwarding: Promise<void> = Promise.resolve();
  #hasEnded = false;
  readonly #connections = new TokenBucket(CONNECTION_RATE);

  /** @param onEvent called for each event; `closed` is the last */
  constructor(token: string, onEvent: (event: InspectionEvent) => void) {
    this.token = token;
    this.#onEvent = onEvent;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Path of the WebSocket, appended to the session API's address. */
  get path(): string {
    return `/inspector/${this.token}`;
  }

  /** Switches to the child that serves from now on. Disconnects a debugger that is attached to the previous one. */
  serve(child: Child): void {
    if (this.#hasEnded || child.inspector === null) return;
    const isFirst = this.#child === null;
    this.#releaseChild(CLOSE.restarted, 'the draft was saved, or its process was started again');
    this.#child = child;
    this.#pipe = new MessagePipe(child.inspector, {
      message: (text) => this.#sendToClient(text),
      violation: (reason) => this.#disconnectClient(CLOSE.policy, reason),
    });
    void child.ended.then(() => {
      if (this.#child === child) this.#releaseChild(CLOSE.goingAway, 'its process ended');
    });
    if (!isFirst) this.#onEvent({ type: 'moved' });
  }

  /** Counts a debugger that wants to connect. @returns why it may not; null: it may */
  countConnection(): Problem | null {
    return this.#connections.consume() ? null : createRateLimitProblem(this.#connections, CONNECTION_RULE);
  }

  /** Attaches a debugger. Only one can be attached at a time. */
  attach(client: WebSocket): void {
    // Also for one that is refused: without a listener, its next malformed frame would end this process.
    client.on('error', () => client.terminate());
    if (this.#client || !this.#child || !this.#pipe) {
      client.close(
        CLOSE.tryLater,
        this.#client ? 'another debugger is attached' : 'the plugin is not running: call it first',
      );
      return;
    }
    this.#client = client;
    client.on('message', (data, isBinary) => {
      const text = isBinary ? '' : String(data);
      this.#forwarding = this.#forwarding.then(() => this.#forwardInTurn(client, text));
    });
    client.on('close', () => {
      if (this.#client === client) this.#detachClient();
    });
    this.#pipe.resetSession();
    this.#child.holdDeadlines(true);
    this.#onEvent({ type: 'attached' });
  }

  /** Closes the inspector: disconnects the debugger and resumes paused handlers. Idempotent. */
  end(reason: string): void {
    if (this.#hasEnded) return;
    this.#releaseChild(CLOSE.goingAway, reason);
    this.#hasEnded = true;
    this.#onEvent({ type: 'closed', reason });
  }

  /** The check of a large command blocks the event loop for up to some hundred milliseconds. */
  async #forwardInTurn(client: WebSocket, text: string): Promise<void> {
    if (text.length > COSTLY_BYTES) {
      client.pause();
      await waitForLoopTurn(this.token);
      client.resume();
    }
    this.#forwardCommand(client, text);
  }

  #forwardCommand(client: WebSocket, text: string): void {
    if (this.#client !== client) return;
    if (isCommand(text)) this.#pipe?.send(text);
    else this.#disconnectClient(CLOSE.malformed, 'not a command of the Chrome DevTools Protocol');
  }

  #sendToClient(text: string): void {
    const client = this.#client;
    const pipe = this.#pipe;
    if (!client || !pipe) return;
    client.send(text, () => {
      if (client.bufferedAmount <= CLIENT_BACKLOG_BYTES) pipe.resume();
    });
    if (client.bufferedAmount > CLIENT_BACKLOG_BYTES) pipe.pause();
  }

  #releaseChild(code: number, reason: string): void {
    this.#disconnectClient(code, reason);
    this.#pipe?.close();
    this.#pipe = null;
    this.#child = null;
  }

  #disconnectClient(code: number, reason: string): void {
    const client = this.#client;
    if (!client) return;
    this.#detachClient();
    client.close(code, reason.slice(0, REASON_MAX));
  }

  #detachClient(): void {
    this.#client = null;
    this.#pipe?.resetSession();
    this.#pipe?.resume();
    this.#child?.holdDeadlines(false);
    this.#onEvent({ type: 'detached' });
  }
}

/** Whether a text is a command of the Chrome DevTools Protocol. The child validates its params. */
function isCommand(text: string): boolean {
  try {
    const { id, method, params } = JSON.parse(text);
    const isNamed = typeof method === 'string' && method.length <= METHOD_MAX_CHARS;
    return isNamed && Number.isSafeInteger(id) && (params === undefined || isRecord(params));
  } catch {
    return false;
  }
}
