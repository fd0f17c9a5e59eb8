/** The demo's REST client, its addresses and its token. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isUnreachable } from '../sdk/cli/failure.ts';
import { type Call, hasCode, Transport } from '../sdk/session/transport.ts';

/** Longer than any response of the service takes, so that only a hanging one is aborted. */
const REQUEST_TIMEOUT_MS = 60_000;
const DEMO_USER = 'demo';

/** No service answers at the address. */
export class NotRunning extends Error {}

/** Refused requests throw `BulkheadError`. */
export class Service {
  readonly #base: string;
  readonly #transport: Transport;

  constructor(base: string, token: string) {
    this.#base = base;
    this.#transport = new Transport({ url: base, token, retryForMs: 0 });
  }

  get<Answer>(path: string): Promise<Answer> {
    return this.#send({ method: 'GET', path });
  }

  delete(path: string): Promise<unknown> {
    return this.#send({ method: 'DELETE', path });
  }

  post<Answer>(path: string, body: object = {}): Promise<Answer> {
    return this.#send({ method: 'POST', path, body });
  }

  async postForm<Answer>(path: string, form: FormData): Promise<Answer> {
    const encoded = new Response(form);
    const [type, bytes] = [encoded.headers.get('content-type') ?? '', await encoded.blob()];
    return this.#send({ method: 'POST', path, stream: { type, open: () => bytes.stream() } });
  }

  #send<Answer>(call: Call): Promise<Answer> {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    return this.#transport.json<Answer>({ ...call, signal }).catch((error: unknown) => {
      throw isUnreachable(error) ? new NotRunning(`nothing answers at ${this.#base}`) : error;
    });
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
    if (!hasCode(error, 'unauthenticated')) throw error;
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
