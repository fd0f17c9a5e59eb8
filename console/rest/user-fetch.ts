/** Sends requests with the console's cookie. Without a session they wait for the next sign-in instead of failing. */
import { countSignIns, recordAcceptance, recordRefusal, waitForSignIn } from '../sign-in/session-state.ts';

const UNAUTHENTICATED = 401;
const TOO_MANY_REQUESTS = 429;
const SERVER_ERROR = 500;

/** Whether the service may have refused the request before it read the cookie. */
const isBeforeSignIn = (status: number): boolean => status === TOO_MANY_REQUESTS || status >= SERVER_ERROR;
/** The service accepts the cookie only from pages that can send this header. */
export const CONSOLE_HEADERS = { 'x-bulkhead-console': '1' } as const;

/** Sends a request once, for any account or none. */
export function fetchAsConsole(request: Request): Promise<Response> {
  for (const [name, value] of Object.entries(CONSOLE_HEADERS)) request.headers.set(name, value);
  return fetch(request);
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
