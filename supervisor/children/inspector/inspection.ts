/** One open inspector: the child that serves an author's draft, and the debugger that looks into it. */
import { randomBytes } from 'node:crypto';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import type { Child } from '../child.ts';
import type { Inspector } from '../installation-runner.ts';
import { MessagePipe } from './message-pipe.ts';

/** What happens to it, for whoever opened it. */
export type InspectionEvent =
  | { readonly type: 'open'; readonly path: string }
  | { readonly type: 'moved' | 'attached' | 'detached' }
  | { readonly type: 'closed'; readonly reason: string };

/** A token that cannot be guessed stands for the request that made it. Bytes. */
const TOKEN_BYTES = 32;
/** What may wait for a debugger that does not read before the child waits too, bytes. */
const CLIENT_BACKLOG_BYTES = 4_194_304;
/** Longest reason of a WebSocket's end, bytes. */
const REASON_MAX = 120;
/** Codes of RFC 6455. */
const CLOSE = { goingAway: 1001, malformed: 1007, policy: 1008, restarted: 1012, tryLater: 1013 } as const;

/** A command of the Chrome DevTools Protocol; its params are the child's to refuse. */
const command = z.object({
  id: z.int(),
  method: z.string().max(200),
  params: z.record(z.string(), z.unknown()).optional(),
});

export class Inspection implements Inspector {
  readonly token = randomBytes(TOKEN_BYTES).toString('base64url');
  readonly #tell: (event: InspectionEvent) => void;
  #child: Child | null = null;
  #pipe: MessagePipe | null = null;
  #client: WebSocket | null = null;
  #ended = false;

  /** @param tell told of everything that happens; after `closed`, of nothing */
  constructor(tell: (event: InspectionEvent) => void) {
    this.#tell = tell;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Of the WebSocket, below the session API's address. */
  get path(): string {
    return `/inspector/${this.token}`;
  }

  /** A child serves from now on: the first, or the one of a draft saved since. Its debugger attaches anew. */
  serve(child: Child): void {
    if (this.#ended || child.inspector === null) return;
    const isFirst = this.#child === null;
    this.#leave(CLOSE.restarted, 'the draft was saved, or its process was started again');
    this.#child = child;
    this.#pipe = new MessagePipe(child.inspector, {
      message: (text) => this.#pass(text),
      violation: (reason) => this.#drop(CLOSE.policy, reason),
    });
    void child.ended.then(() => {
      if (this.#child === child) this.#leave(CLOSE.goingAway, 'its process ended');
    });
    if (!isFirst) this.#tell({ type: 'moved' });
  }

  /** Lets a debugger in, one at a time. */
  attach(client: WebSocket): void {
    if (this.#client || !this.#child || !this.#pipe) {
      client.close(CLOSE.tryLater, this.#client ? 'another debugger is attached' : 'it does not run just now: call it');
      return;
    }
    this.#client = client;
    client.on('message', (data, isBinary) => this.#ask(client, isBinary ? '' : String(data)));
    client.on('close', () => {
      if (this.#client === client) this.#letGo();
    });
    client.on('error', () => client.terminate());
    this.#pipe.begin();
    this.#child.holdDeadlines(true);
    this.#tell({ type: 'attached' });
  }

  /** Ends it: the debugger goes, handlers run on. Safe to call again. */
  end(reason: string): void {
    if (this.#ended) return;
    this.#leave(CLOSE.goingAway, reason);
    this.#ended = true;
    this.#tell({ type: 'closed', reason });
  }

  #ask(client: WebSocket, text: string): void {
    if (this.#client !== client) return;
    if (isCommand(text)) this.#pipe?.send(text);
    else this.#drop(CLOSE.malformed, 'this is no command of the Chrome DevTools Protocol');
  }

  #pass(text: string): void {
    const [client, pipe] = [this.#client, this.#pipe];
    if (!client || !pipe) return;
    client.send(text, () => {
      if (client.bufferedAmount <= CLIENT_BACKLOG_BYTES) pipe.resume();
    });
    if (client.bufferedAmount > CLIENT_BACKLOG_BYTES) pipe.pause();
  }

  /** The child goes, or the inspection. */
  #leave(code: number, reason: string): void {
    this.#drop(code, reason);
    this.#pipe?.close();
    this.#pipe = null;
    this.#child = null;
  }

  #drop(code: number, reason: string): void {
    const client = this.#client;
    if (!client) return;
    this.#letGo();
    client.close(code, reason.slice(0, REASON_MAX));
  }

  #letGo(): void {
    this.#client = null;
    this.#pipe?.begin();
    this.#pipe?.resume();
    this.#child?.holdDeadlines(false);
    this.#tell({ type: 'detached' });
  }
}

function isCommand(text: string): boolean {
  try {
    return command.safeParse(JSON.parse(text)).success;
  } catch {
    return false;
  }
}
