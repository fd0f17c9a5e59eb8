/** Stops reading a socket, for which Node has no public API: a paused stream still reads until its buffer is full. */
import type { Socket } from 'node:net';

interface Handle {
  reading: boolean;
  readStop(): void;
}

/** Stops reading before the first byte. Call it in the turn of the loop in which the socket was created. */
export function stopReading(socket: Socket): Socket {
  const { _handle: handle } = socket as unknown as { _handle: Handle };
  handle.reading = false;
  handle.readStop();
  return socket;
}
