/** Settings: environment variables, each described once, parsed once at start-up. */
import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { z } from 'zod';

/** A setting that stops start-up. Its message is one sentence that names the setting. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

const HIGHEST_PORT = 65_535;
/** What a number counts. */
export type Unit = 'bytes' | 'megabytes' | 'seconds' | 'days' | 'a second' | 'a minute' | 'a day';

/**
 * A whole number.
 *
 * @param fallback used when the variable is absent or empty
 * @param doc one sentence for `.env.example` and `docs/settings.md`
 * @param unit of the number, where it counts more than things
 */
export function wholeNumber(min: number, max: number, fallback: number, doc: string, unit?: Unit) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, error)
    .transform(Number)
    .pipe(z.number().min(min, error).max(max, error))
    .prefault(String(fallback))
    .meta({ description: doc, values: `${min} to ${max}`, unit });
}

/** A TCP port. */
export function port(fallback: number, doc: string) {
  return wholeNumber(1, HIGHEST_PORT, fallback, doc);
}

/** One of a few words. */
export function oneOf<const Words extends readonly [string, ...string[]]>(
  words: Words,
  fallback: Words[number],
  doc: string,
) {
  return z
    .enum(words, `must be one of ${words.join(', ')}`)
    .prefault(fallback)
    .meta({ description: doc, values: words.join(', ') });
}

/** An http or https address, without a slash at its end. Absent without a default. */
export function webAddress(doc: string) {
  return z
    .url({ protocol: /^https?$/, error: 'must be an http or https address' })
    .transform((url) => url.replace(/\/+$/, ''))
    .optional()
    .describe(doc);
}

/** Addresses and networks (`10.0.0.0/8`), separated by commas; none by default. */
export function networks(doc: string) {
  return z
    .string()
    .transform((list) => list.split(',').map((one) => one.trim()))
    .transform((list) => list.filter((one) => one !== ''))
    .refine((list) => list.every(isNetwork), 'must be addresses or networks (10.0.0.0/8), separated by commas')
    .prefault('')
    .describe(doc);
}

function isNetwork(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/');
  const longest = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0;
  if (longest === 0 || more.length > 0) return false;
  return bits === undefined || (/^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= longest);
}

/** What API, supervisor and `npm start` all need. */
export const sharedSettings = {
  DATA_DIR: z
    .string()
    .transform((path) => resolve(path))
    .prefault('.bulkhead')
    .describe('Folder of all state on disk: embedded PostgreSQL, keys, blobs.'),
  DATABASE_URL: z
    .url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// address' })
    .optional()
    .describe('PostgreSQL 15 or newer to use. Empty: npm start brings its own and keeps it in DATA_DIR.'),
  LOG_LEVEL: oneOf(['debug', 'info', 'warn', 'error'], 'info', 'Least severe log line written.'),
  HOST: z
    .string()
    .min(1)
    .prefault('127.0.0.1')
    .describe(
      'Address the API and the session API listen on; of a name, its first IPv4 address, so localhost is 127.0.0.1 only. For all of IPv4 and IPv6: ::.',
    ),
  PORT: port(4000, 'Port of the REST interface, the webhook address and the console.'),
  PUBLIC_URL: webAddress('Address users reach the API and console at. Empty: http://localhost:<PORT>.'),
  SUPERVISOR_PORT: port(4010, 'Port of the session API.'),
  SUPERVISOR_URL: webAddress(
    'Address agent runtimes and the console reach the session API at. Empty: http://localhost:<SUPERVISOR_PORT>.',
  ),
  OPS_HOST: z
    .string()
    .min(1)
    .prefault('127.0.0.1')
    .describe('Address /healthz, /readyz and /metrics listen on. Not for the public.'),
  API_OPS_PORT: port(4001, "Port of the API's /healthz, /readyz and /metrics."),
  SUPERVISOR_OPS_PORT: port(4011, "Port of the supervisor's /healthz, /readyz and /metrics."),
  TRUST_PROXY: networks(
    'Reverse proxies in front of the API and the session API: addresses and networks (10.0.0.0/8), separated by commas. Their X-Forwarded-For says who asks. Empty: none, and nobody is believed.',
  ),
  STRANGER_REQUESTS_PER_MINUTE: wholeNumber(
    1,
    10_000_000,
    600,
    'Requests of one address, to each process, that carry no token or one that is not good.',
    'a minute',
  ),
  OIDC_ISSUER: webAddress('Accept tokens of this OpenID Connect issuer instead of our own.'),
  OIDC_AUDIENCE: z.string().min(1).optional().describe('Audience those tokens must carry. Required with OIDC_ISSUER.'),
  DATABASE_CONNECTIONS: wholeNumber(2, 500, 20, 'Database connections of each process at most.'),
} as const;

/** What only `npm start` reads. */
export const localSettings = {
  SANDBOX_FETCH: oneOf(
    ['on', 'off'],
    'on',
    'on: where bubblewrap, or the libatomic of Node, is not installed, npm start gets the package of this Debian or Ubuntu release with apt and unpacks it below DATA_DIR and node_modules; nothing is installed. off: it does not.',
  ),
} as const;

export type SharedSettings = z.output<z.ZodObject<typeof sharedSettings>>;

/**
 * Parses the environment. Variables that no setting names are ignored; an empty one counts as absent.
 *
 * @param shape the settings, by the name of their variable
 * @throws SettingsError naming the first bad setting; the value is not repeated, since it may be a secret
 */
export function parseSettings<Shape extends z.ZodRawShape>(
  shape: Shape,
  env: Readonly<Record<string, string | undefined>>,
): z.output<z.ZodObject<Shape>> {
  const given = Object.fromEntries(
    Object.keys(shape).flatMap((name) => (env[name] === undefined || env[name] === '' ? [] : [[name, env[name]]])),
  );
  const parsed = z.object(shape).safeParse(given);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new SettingsError(`${String(issue?.path[0])} ${issue?.message ?? 'is not valid'}.`);
  }
  if (given.OIDC_ISSUER !== undefined && given.OIDC_AUDIENCE === undefined && 'OIDC_AUDIENCE' in shape) {
    throw new SettingsError('OIDC_AUDIENCE must be set when OIDC_ISSUER is set.');
  }
  return parsed.data;
}

/** The environment, with what a file `.env` in the working directory adds. A variable that is set already wins. */
export function readEnvironment(): Readonly<Record<string, string | undefined>> {
  if (existsSync('.env')) process.loadEnvFile('.env');
  return process.env;
}

/** Where users reach the API and the console, without a slash at the end. */
export function publicUrl(settings: Pick<SharedSettings, 'PUBLIC_URL' | 'PORT'>): string {
  return settings.PUBLIC_URL ?? `http://localhost:${settings.PORT}`;
}

/** Where agent runtimes and the console reach the session API, without a slash at the end. */
export function supervisorUrl(settings: Pick<SharedSettings, 'SUPERVISOR_URL' | 'SUPERVISOR_PORT'>): string {
  return settings.SUPERVISOR_URL ?? `http://localhost:${settings.SUPERVISOR_PORT}`;
}

export interface SettingDoc {
  readonly name: string;
  readonly doc: string;
  /** The default as it would be written in the environment; null where there is none. */
  readonly fallback: string | null;
  /** Of a number; null: it counts things, or is none. */
  readonly unit: string | null;
  /** What may be written: a range, or the words; null where the meaning says it. */
  readonly values: string | null;
}

/** Name, meaning, default, unit and range of every setting of a shape, in its order. */
export function describeSettings(shape: z.ZodRawShape): SettingDoc[] {
  return Object.entries(shape).map(([name, schema]) => ({
    name,
    doc: (schema instanceof z.ZodType && schema.description) || '',
    fallback: schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : null,
    ...notedOf(schema),
  }));
}

function notedOf(schema: unknown): Pick<SettingDoc, 'unit' | 'values'> {
  const { unit, values } = (schema instanceof z.ZodType && schema.meta()) || {};
  return { unit: typeof unit === 'string' ? unit : null, values: typeof values === 'string' ? values : null };
}
