/** A client of the session API. */
import { waitForOwnSession } from '../sign-in/session-state.ts';
import { readBody, readProblem, rest } from './client.ts';
import { fetchAsConsole } from './user-fetch.ts';

const UNAUTHENTICATED = 401;
const NO_COOKIE =
  'The session API does not get the cookie of this page. Open the console at the address that the operator set (PUBLIC_URL). If the session API has another host name, ask the operator to set CONSOLE_COOKIE_DOMAIN.';

let address: Promise<string> | null = null;

async function readAddress(): Promise<string> {
  const { sessionApiUrl } = await readBody(rest.GET('/sign-in'));
  if (sessionApiUrl === null)
    throw new Error('The service does not publish the address of its session API. Ask the operator to set it.');
  return sessionApiUrl.replace(/\/$/, '');
}

/** @throws Problem if the service refuses the call */
export async function callSessions<Answer>(
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
  signal: AbortSignal | null = null,
) {
  address ??= readAddress();
  const base = await address.catch((error: unknown) => {
    address = null;
    throw error;
  });
  const send = async () => {
    const request = new Request(`${base}${path}`, {
      method,
      credentials: 'include',
      signal,
      ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    await waitForOwnSession(request.signal);
    return fetchAsConsole(request);
  };
  let response = await send();
  if (response.status === UNAUTHENTICATED) {
    // The REST interface knows whether the session has ended, and waits for the next one.
    await rest.GET('/me');
    response = await send();
    if (response.status === UNAUTHENTICATED) throw new Error(NO_COOKIE);
  }
  if (!response.ok) throw await readProblem(response, method !== 'GET');
  return (response.status === 204 ? null : await response.json()) as Answer;
}
