/** The demo's REST client: JSON with a bearer token; refused requests throw errors. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Longer than any response of the service takes, so that only a hanging one is aborted. */
const REQUEST_TIMEOUT_MS = 60_000;
const DEMO_USER = 'demo';

/** No service answers at the address. */
export class NotRunning extends Error {}

/** A refused request, with its `application/problem+json`. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(request: string, status: number, problem: { code?: string; detail?: string }) {
    super(`${request} answered ${status} ${problem.code ?? ''}: ${problem.detail ?? 'no detail'}`);
    this.status = status;
    this.code = problem.code ?? '';
  }
}

export class Service {
  readonly #base: string;
  readonly #token: string;

  constructor(base: string, token: string) {
    this.#base = base.replace(/\/$/, '');
    this.#token = token;
  }

  get<Answer>(path: string): Promise<Answer> {
    return this.#send<Answer>('GET', path);
  }

  delete(path: string): Promise<unknown> {
    return this.#send('DELETE', path);
  }

  /** Sends JSON, or a form as multipart. */
  post<Answer>(path: string, body: object = {}): Promise<Answer> {
    return this.#send<Answer>('POST', path, body);
  }

  async #send<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    const json = body !== undefined && !(body instanceof FormData);
    const response = await fetch(`${this.#base}${path}`, {
      method,
      headers: { authorization: `Bearer ${this.#token}`, ...(json ? { 'content-type': 'application/json' } : {}) },
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    }).catch((error: Error) => {
      throw error.name === 'TimeoutError' ? error : new NotRunning(`nothing answers at ${this.#base}`);
    });
    const text = await response.text();
    const answer: unknown = text === '' ? undefined : parsed(text);
    if (!response.ok) throw new Refusal(`${method} ${path}`, response.status, toProblem(answer));
    return answer as Answer;
  }
}

/** The addresses of the service that `npm start` runs in this folder with this environment and `.env`. */
export function readAddresses(): { readonly base: string; readonly sessionBase: string } {
  if (existsSync('.env')) process.loadEnvFile('.env');
  const { PORT, SUPERVISOR_PORT, BASE_URL, SESSION_URL } = process.env;
  return {
    base: BASE_URL || `http://localhost:${PORT || 4000}/api`,
    sessionBase: SESSION_URL || `http://localhost:${SUPERVISOR_PORT || 4010}`,
  };
}

/** Checks that Bulkhead is running before a token is created. */
export async function answering(base: string): Promise<string> {
  await new Service(base, '').get('/me').catch((error: unknown) => {
    if (!(error instanceof Refusal) || error.code !== 'unauthenticated') throw error;
  });
  return 'answers, and asks for a token';
}

/** Returns the token in `TOKEN`, or creates one with the token command for a user named demo. */
export async function findToken(): Promise<string> {
  const given = process.env.TOKEN;
  if (given) return given;
  const command = fileURLToPath(new URL('../deploy/token.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [command, DEMO_USER]);
  return stdout.trim();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { detail: `a response that is not JSON: ${text.slice(0, 200)}` };
  }
}

const toProblem = (answer: unknown): { code?: string; detail?: string } =>
  typeof answer === 'object' && answer !== null ? answer : {};
