/**
 * A thread beside an inspected plugin: hands the inspector's messages in and out, also while the plugin's own thread
 * stands at a breakpoint. It speaks over a descriptor of its own; what comes is the supervisor's, and needs no suspicion.
 */
import { Session } from 'node:inspector';
import { Socket } from 'node:net';
import { decodeText, encodeText, FrameBuffer } from './frame.ts';

/** The jail's descriptor for it: after the two files and the description of itself that bubblewrap reads and closes. */
const DESCRIPTOR = 6;
/** What may wait for a client that does not read, bytes. Over it the client is let go. */
const BACKLOG_MAX_BYTES = 33_554_432;

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params?: object;
}

const socket = new Socket({ fd: DESCRIPTOR, readable: true, writable: true });
let session: Session | null = null;
/** The supervisor's own, so of any length. */
const frames = new FrameBuffer(Number.POSITIVE_INFINITY);

/** Breakpoints and pauses end with the session that made them. */
function begin(): void {
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
    begin();
    return;
  }
  socket.write(encodeText(JSON.stringify(message)));
}

function ask(text: string): void {
  const asked = session;
  const { id, method, params } = JSON.parse(text) as Request;
  const answer = (error: Error | null, result?: object): void => {
    if (session !== asked) return;
    send(error ? { id, error: { code: -32_000, message: error.message } } : { id, result: result ?? {} });
  };
  try {
    asked?.post(method, params, answer as never);
  } catch (error) {
    answer(error as Error);
  }
}

/** An empty text from the supervisor: another client begins, or none is there. */
function read(chunk: Buffer): void {
  frames.push(chunk);
  for (let text = frames.take(decodeText); text !== null; text = frames.take(decodeText)) {
    if (text === '') begin();
    else ask(text);
  }
}

socket.on('data', read);
// The supervisor has gone, and the whole child goes by its other pipe.
socket.on('error', () => undefined);
