/** The REST interface, typed by its own OpenAPI document. */
import createClient, { type Middleware } from 'openapi-fetch';
import { readToken, setToken } from '../sign-in/token.ts';
import { Problem } from './problem.ts';
import type { paths } from './schema.d.ts';

const signed: Middleware = {
  onRequest({ request }) {
    const token = readToken();
    if (token !== null) request.headers.set('authorization', `Bearer ${token}`);
    return request;
  },
  async onResponse({ response }) {
    if (response.ok) return;
    // The sign-in page says why, and comes by itself once the token is gone.
    if (response.status === 401) setToken(null);
    throw await readProblem(response);
  },
};

/** @returns the service's problem, or what stood for one */
export async function readProblem(response: Response): Promise<Error> {
  try {
    return new Problem(await response.json());
  } catch {
    return new Error(`The service answered ${response.status}.`);
  }
}

/** Calls throw a `Problem` when they are refused, so `data` is there whenever they return. */
export const rest = createClient<paths>({
  baseUrl: '/api',
  querySerializer: { array: { style: 'form', explode: true } },
});
rest.use(signed);

/** The body of an answer that has one. */
export async function readBody<T>(call: Promise<{ data?: T }>): Promise<T> {
  const { data } = await call;
  if (data === undefined) throw new Error('The service answered nothing.');
  return data;
}
