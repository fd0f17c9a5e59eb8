/**
 * A thread in an inspectable child that relays the inspector's messages, also while the plugin's thread is paused at a
 * breakpoint. It uses a separate descriptor. Input comes from the supervisor and is trusted.
 */
import { Session } from 'node:inspector';
import { Socket } from 'node:net';
import { decodeText, encodeText, FrameBuffer } from './frame.ts';

/** The inspector's descriptor, after the two files and the info descriptor that bubblewrap closes. */
const DESCRIPTOR = 6;
/** Largest backlog of a client that does not read, bytes. Beyond it the session is reset. */
const BACKLOG_MAX_BYTES = 33_554_432;

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params?: object;
}

/** Interval at which this thread wakes for answers of the inspector, as the main thread does in `inspected.ts`. Milliseconds. */
const WAKE_EVERY_MS = 50;

setInterval(() => undefined, WAKE_EVERY_MS).unref();
const socket = new Socket({ fd: DESCRIPTOR, readable: true, writable: true });
let session: Session | null = null;
/** Unbounded, because the supervisor is trusted. */
const frames = new FrameBuffer(Number.POSITIVE_INFINITY);

/** Starts a new session, which removes the breakpoints and pauses of the previous one. */
function resetSession(): void {
  session?.disconnect();
  const fresh = new Session();
  fresh.connectToMainThread();
  fresh.on('inspectorNotification', (message: object) => {
    if (session === fresh) send(message);
  });
  session = fresh;
}

function send(message: object): void {
  if (socket.writableLength > BACKLOG_MAX_BYTES) {
    resetSession();
    return;
  }
  socket.write(encodeText(JSON.stringify(message)));
}

function postCommand(text: string): void {
  const current = session;
  const { id, method, params } = JSON.parse(text) as Request;
  const respond = (error: Error | null, result?: object): void => {
    if (session !== current) return;
    send(error ? { id, error: { code: -32_000, message: error.message } } : { id, result: result ?? {} });
  };
  try {
    current?.post(method, params, respond as never);
  } catch (error) {
    respond(error as Error);
  }
}

/** Handles frames of the supervisor. An empty text means that the client has changed or is gone. */
function readChunk(chunk: Buffer): void {
  frames.push(chunk);
  for (let text = frames.readFrame(decodeText); text !== null; text = frames.readFrame(decodeText)) {
    if (text === '') resetSession();
    else postCommand(text);
  }
}

socket.on('data', readChunk);
// The supervisor has ended. The child exits when its stdin ends.
socket.on('error', () => undefined);
