/** The REST client, typed by the OpenAPI document. */
import createClient, { type Middleware } from 'openapi-fetch';
import type { paths } from '../../sdk/rest/schema.d.ts';
import { isProblemBody, Problem, UnreachableError } from './problem.ts';
import { fetchAsUser, isWrite } from './user-fetch.ts';

const refusals: Middleware = {
  async onResponse({ request, response }) {
    if (!response.ok) throw await readProblem(response, isWrite(request));
  },
};

/** A proxy in front of the service sends these when it lost its connection to the service or waited too long. */
const GATEWAY_STATUSES = new Set([502, 503, 504]);

/**
 * Reads the problem of a failed response.
 *
 * @param isOfWrite whether the request may have changed something: a response that a proxy lost then counts as none
 */
export async function readProblem(response: Response, isOfWrite = false): Promise<Error> {
  const body: unknown = await response.json().catch(() => null);
  if (isProblemBody(body)) return new Problem(body);
  const error = new Error(`The service responded with status ${response.status}.`);
  return isOfWrite && GATEWAY_STATUSES.has(response.status) ? new UnreachableError(true, error) : error;
}

/** Refused calls throw a `Problem`, so `data` is set whenever a call returns. */
export const rest = createClient<paths>({
  baseUrl: '/api',
  fetch: fetchAsUser,
  querySerializer: { array: { style: 'form', explode: true } },
});
/** How far the clock of the service is ahead of this computer's, by its last response. Milliseconds. */
let aheadMs = 0;
const clock: Middleware = {
  onResponse({ response }) {
    const at = Date.parse(response.headers.get('date') ?? '');
    if (!Number.isNaN(at)) aheadMs = at - Date.now();
  },
};
rest.use(refusals, clock);

/** Reads the clock of the service, to the second: a computer's own may be hours off. Milliseconds since 1970. */
export const readServiceTime = (): number => Date.now() + aheadMs;

export async function readBody<T>(call: Promise<{ data?: T }>): Promise<T> {
  const { data } = await call;
  if (data === undefined) throw new Error('The response of the service is empty.');
  return data;
}
