/** Runs callbacks when a response closes: it was sent completely, or its client disconnected. */
import type { ServerResponse } from 'node:http';

/** One listener of a response calls all of them: Node warns of more than ten, and a streamed answer would have eleven. */
const actions = new WeakMap<ServerResponse, (() => void)[]>();

/** Calls `act` when the response is closed: at once if its client left before, because then no event comes any more. */
export function onceClosed(response: ServerResponse, act: () => void): void {
  if (response.closed) {
    act();
    return;
  }
  const added = actions.get(response);
  if (added) {
    added.push(act);
    return;
  }
  const first = [act];
  actions.set(response, first);
  response.once('close', () => {
    for (const each of first) each();
  });
}

/** The status under which metrics count a request whose client left before its answer began, as nginx logs it. */
export const CLIENT_LEFT_STATUS = 499;

/** The status of the answer that was sent, or begun; null: the client left before. */
export const sentStatus = ({ headersSent, statusCode }: ServerResponse): number | null =>
  headersSent ? statusCode : null;
