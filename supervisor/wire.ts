/**
 * The supervisor's end of a child's wire. Everything that comes in is a stranger's: a frame is measured before it is
 * kept, its shape is checked before it is believed, and the first violation ends the conversation.
 *
 * Not vscode-jsonrpc: it has no bounds of its own, and its stock connection takes 2.4 times a bare pipe for a 4 KB
 * prompt where this takes 1.3 (`bench/hook-round-trip.ts`).
 */
import type { Readable, Writable } from 'node:stream';
import {
  decodeFrame,
  encodeFrame,
  FRAME_MAX_BYTES,
  FrameError,
  HEADER_BYTES,
  type Message,
} from '../sandbox-child/frame.ts';

export interface WireHandlers {
  /** Answers a request of the child; what it rejects with goes back as an error, if it is a `WireRefusal`. */
  request(method: string, params: unknown): Promise<unknown>;
  notice(method: string, params: unknown): void;
  /** The child broke the rules; nothing more will be read. */
  violation(reason: string): void;
}
export interface Wire {
  /** Rejects with the reason of `close`, where the wire closes first; with RangeError where the message is too large. */
  request(method: string, params: unknown): Promise<unknown>;
  notice(method: string, params: unknown): void;
  /** Fails what is waiting and reads no more. Safe to call again. */
  close(reason: Error): void;
}
/** An error whose code and message are made for the other side of the wire. */
export class WireRefusal extends Error {
  override readonly name = 'WireRefusal';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Frames read from one child in one window; then its pipe is left alone until the next. 10,000 a second. */
const WINDOW_FRAMES = 1_000;
const WINDOW_MS = 100;
/** What may wait for a child that does not read, bytes: two of the largest frames. */
const BACKLOG_MAX_BYTES = 2 * FRAME_MAX_BYTES;
/** Requests of the child being answered: its 16 in flight, those waiting, and slack. */
const REQUESTS_MAX = 128;

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Starts the conversation. */
export function openWire(input: Readable, output: Writable, handlers: WireHandlers): Wire {
  const waiting = new Map<number, Waiting>();
  let serial = 0;
  let answering = 0;
  let closed: Error | null = null;

  function send(message: Message): void {
    if (closed) return;
    output.write(encodeFrame(message));
    if (output.writableLength > BACKLOG_MAX_BYTES) violate('it does not read what it is sent');
  }
  function close(reason: Error): void {
    if (closed) return;
    closed = reason;
    stopReading();
    for (const { reject } of waiting.values()) reject(reason);
    waiting.clear();
  }
  function violate(reason: string): void {
    close(new FrameError(reason));
    handlers.violation(reason);
  }
  async function answer(id: number, method: string, params: unknown): Promise<void> {
    answering += 1;
    try {
      const result = await handlers.request(method, params);
      send({ id, result });
    } catch (error) {
      // Text of our own errors never crosses: only what was written for the child.
      const { code, message } =
        error instanceof WireRefusal ? error : { code: 'internal', message: 'it failed inside' };
      send({ id, error: { code, message } });
    } finally {
      answering -= 1;
    }
  }
  function receive(message: Message): void {
    const { id, method, params } = message;
    if (typeof method === 'string') {
      if (id === undefined) handlers.notice(method, params);
      else if (!isSerial(id)) violate('the id of a request is no number');
      else if (answering >= REQUESTS_MAX)
        send({ id, error: { code: 'too_many_calls', message: 'too many calls at once' } });
      else answer(id, method, params);
      return;
    }
    if (!isSerial(id) || id > serial) return violate('an answer to nothing');
    const call = waiting.get(id);
    waiting.delete(id);
    // A second answer, or one after the deadline, finds nobody and is dropped.
    if (!call) return;
    if (message.error === undefined) call.resolve(message.result);
    else call.reject(new FrameError('the child refused a request'));
  }
  const stopReading = readFrames(input, receive, violate);
  // A broken pipe is the exit of the child, which is told apart elsewhere.
  output.on('error', () => {});
  input.on('error', () => {});
  return {
    request(method, params) {
      if (closed) return Promise.reject(closed);
      return new Promise((resolve, reject) => {
        serial += 1;
        send({ id: serial, method, params });
        waiting.set(serial, { resolve, reject });
      });
    },
    notice: (method, params) => send({ method, params }),
    close,
  };
}

const isSerial = (id: unknown): id is number => Number.isSafeInteger(id) && (id as number) > 0;

/** Cuts the stream into frames, at a bounded size and rate. Answers a function that stops for good. */
function readFrames(
  input: Readable,
  receive: (message: Message) => void,
  violate: (reason: string) => void,
): () => void {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let wanted = HEADER_BYTES;
  let stopped = false;
  let frames = 0;
  let windowEnds = 0;
  const stop = (): void => {
    stopped = true;
    held = [];
    input.pause();
    input.removeAllListeners('data');
  };
  const spend = (): void => {
    frames += 1;
    if (frames < WINDOW_FRAMES) return;
    const now = performance.now();
    if (now < windowEnds) {
      input.pause();
      setTimeout(() => stopped || input.resume(), windowEnds - now).unref();
    }
    windowEnds = now + WINDOW_MS;
    frames = 0;
  };
  const take = (chunk: Buffer): void => {
    let at = 0;
    wanted = HEADER_BYTES;
    while (!stopped && chunk.byteLength - at >= HEADER_BYTES) {
      const rest = chunk.readUInt32LE(at);
      const head = chunk.readUInt32LE(at + 4);
      if (rest > FRAME_MAX_BYTES) return violate(`a frame of ${rest} bytes; the limit is ${FRAME_MAX_BYTES}`);
      if (head + 4 > rest) return violate('a frame shorter than its head');
      const end = at + 4 + rest;
      wanted = end - at;
      if (end > chunk.byteLength) break;
      receive(decodeFrame(chunk, at + HEADER_BYTES, at + HEADER_BYTES + head, end));
      spend();
      at = end;
      wanted = HEADER_BYTES;
    }
    if (stopped || at === chunk.byteLength) return;
    const left = at === 0 ? chunk : chunk.subarray(at);
    held.push(left);
    heldBytes = left.byteLength;
  };
  input.on('data', (fresh: Buffer) => {
    if (heldBytes > 0) {
      held.push(fresh);
      heldBytes += fresh.byteLength;
      if (heldBytes < wanted) return;
    }
    const chunk = heldBytes > 0 ? Buffer.concat(held) : fresh;
    held = [];
    heldBytes = 0;
    try {
      take(chunk);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      violate(error.message);
    }
  });
  return stop;
}
