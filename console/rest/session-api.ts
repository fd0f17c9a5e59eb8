/** A client of the session API. */
import { readToken, setToken } from '../sign-in/token.ts';
import { readBody, readProblem, rest } from './client.ts';

let address: Promise<string> | null = null;

async function readAddress(): Promise<string> {
  const { sessionApiUrl } = await readBody(rest.GET('/sign-in'));
  if (sessionApiUrl === null)
    throw new Error('The service does not publish the address of its session API. Ask the operator to set it.');
  return sessionApiUrl.replace(/\/$/, '');
}

/** @throws Problem if the service refuses the call */
export async function callSessions<Answer>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown) {
  address ??= readAddress();
  const base = await address.catch((error: unknown) => {
    address = null;
    throw error;
  });
  const response = await fetch(`${base}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${readToken() ?? ''}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (response.status === 401) setToken(null);
  if (!response.ok) throw await readProblem(response);
  return (response.status === 204 ? null : await response.json()) as Answer;
}
