/** Sends requests with the console's cookie. Without a session they wait for the next sign-in instead of failing. */
import {
  countSignIns,
  recordAcceptance,
  recordRefusal,
  waitForOwnSession,
  waitForSignIn,
} from '../sign-in/session-state.ts';
import { UnreachableError } from './problem.ts';

const UNAUTHENTICATED = 401;
const TOO_MANY_REQUESTS = 429;
const SERVER_ERROR = 500;

/** Whether the service may have refused the request before it read the cookie. */
const isBeforeSignIn = (status: number): boolean => status === TOO_MANY_REQUESTS || status >= SERVER_ERROR;
/** The service accepts the cookie only from pages that can send this header. */
export const CONSOLE_HEADERS = { 'x-bulkhead-console': '1' } as const;

export const isWrite = (request: Parameters<typeof fetch>[0]): boolean =>
  request instanceof Request && request.method !== 'GET';

/** @throws UnreachableError if there is no response */
export async function fetchOrExplain(...request: Parameters<typeof fetch>): Promise<Response> {
  try {
    return await fetch(...request);
  } catch (error) {
    // Another error is the reason of an abort.
    throw error instanceof TypeError ? new UnreachableError(isWrite(request[0]), error) : error;
  }
}

/** Sends a request once, for any account or none. */
export function fetchAsConsole(request: Request): Promise<Response> {
  for (const [name, value] of Object.entries(CONSOLE_HEADERS)) request.headers.set(name, value);
  return fetchOrExplain(request);
}

/** Sends a request, again after each sign-in that it had to wait for. */
export const fetchAsUser = (request: Request): Promise<Response> =>
  sendAsUser(() => fetchAsConsole(request.clone()), request.signal);

/** @param send sends the request; called again after a sign-in */
export async function sendAsUser<Answer extends { readonly status: number }>(
  send: () => Promise<Answer>,
  signal: AbortSignal,
): Promise<Answer> {
  for (;;) {
    await waitForOwnSession(signal);
    const signIns = countSignIns();
    const answer = await send();
    if (answer.status !== UNAUTHENTICATED) {
      if (!isBeforeSignIn(answer.status)) recordAcceptance();
      return answer;
    }
    recordRefusal(signIns);
    await waitForSignIn(signal);
  }
}
