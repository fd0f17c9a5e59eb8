/** The REST client, typed by the OpenAPI document. */
import createClient, { type Middleware } from 'openapi-fetch';
import { isProblemBody, Problem } from './problem.ts';
import type { paths } from './schema.d.ts';
import { fetchAsUser } from './user-fetch.ts';

const refusals: Middleware = {
  async onResponse({ response }) {
    if (!response.ok) throw await readProblem(response);
  },
};

/** Reads the problem of a failed response. */
export async function readProblem(response: Response): Promise<Error> {
  const body: unknown = await response.json().catch(() => null);
  return isProblemBody(body) ? new Problem(body) : new Error(`The service responded with status ${response.status}.`);
}

/** Refused calls throw a `Problem`, so `data` is set whenever a call returns. */
export const rest = createClient<paths>({
  baseUrl: '/api',
  fetch: fetchAsUser,
  querySerializer: { array: { style: 'form', explode: true } },
});
rest.use(refusals);

export async function readBody<T>(call: Promise<{ data?: T }>): Promise<T> {
  const { data } = await call;
  if (data === undefined) throw new Error('The response of the service is empty.');
  return data;
}
