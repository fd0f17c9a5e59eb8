/** Describes and parses settings, which are environment variables read once at start-up. */
import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';
import { KIB, limits, MIB } from '../../sdk/contract/limits.ts';
import { removeTrailingSlashes } from '../../sdk/session/web-addresses.ts';

/** An invalid setting, which prevents start-up. The message is one sentence that names the setting. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

/** Variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

export const HIGHEST_PORT = 65_535;
const BLOB_STORE = /^(files|database|s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[A-Za-z0-9._-]+)*\/?)$/;
type Unit = 'bytes' | 'megabytes' | 'seconds' | 'hours' | 'days' | 'a second' | 'a minute' | 'a day';

/**
 * A whole number.
 *
 * @param fallback used when the variable is absent or empty
 * @param doc one sentence for `.env.example` and `docs/settings.md`
 * @param unit absent for plain counts
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

/** A text of any form. Optional. */
export function optionalText(doc: string) {
  return z.string().min(1).optional().describe(doc);
}

/** An address to listen on. Default: this machine only. */
function listenHost(doc: string) {
  return z.string().min(1).prefault('127.0.0.1').describe(doc);
}

function port(fallback: number, doc: string) {
  return wholeNumber(1, HIGHEST_PORT, fallback, doc);
}

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

/** An http or https address to which paths are appended. */
export const baseAddress = z
  .url({ protocol: /^https?$/, error: 'must be an http or https address' })
  .refine(isBaseAddress, 'must be an http or https address without user name, password, query and fragment');

function isBaseAddress(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && url.username === '' && url.password === '' && !/[?#]/.test(text);
}

/** A base address without a slash at the end. Optional. */
export function webAddress(doc: string) {
  return baseAddress.transform(removeTrailingSlashes).optional().describe(doc);
}

/** Items separated by commas. Default: none. @param read changes an item before it is checked */
export function commaList(
  kind: string,
  isValid: (item: string) => boolean,
  doc: string,
  read = (item: string) => item,
) {
  return z
    .string()
    .transform((list) => list.split(',').map((item) => read(item.trim())))
    .transform((items) => items.filter((item) => item !== ''))
    .refine((items) => items.every(isValid), `must be ${kind}, separated by commas`)
    .prefault('')
    .describe(doc);
}

function isNetwork(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/');
  const longest = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0;
  if (longest === 0 || more.length > 0) return false;
  return bits === undefined || (/^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= longest);
}

/** The bytes of one kind that an account may keep. */
function quota(fallback: number, doc: string) {
  return wholeNumber(MIB, 1_000_000 * MIB, fallback, `Quota of one account: ${doc} (docs/quotas.md).`, 'bytes');
}

/** A password that contains one of these characters ends the host of its address there, or makes it no address. */
export const PASSWORD_HINT = 'if its password has @, #, / or %, write %40, %23, %2F or %25';
const databaseAddress = z
  .url({ protocol: /^postgres(ql)?$/, error: `must be a postgres:// address; ${PASSWORD_HINT}` })
  .optional();

/** Settings of API, supervisor and `npm start`. */
export const sharedSettings = {
  DATA_DIR: z
    .string()
    .transform((path) => resolve(path))
    .prefault('.bulkhead')
    .describe('Folder of all state on disk: embedded PostgreSQL, keys, blobs.'),
  DATABASE_URL: databaseAddress.describe(
    'Address of a PostgreSQL server, version 15 or newer, and of a database in UTF8. With TLS: ?sslmode=verify-full at its end (docs/operating.md). Empty: npm start runs an embedded PostgreSQL with its data in DATA_DIR.',
  ),
  DATABASE_SESSION_URL: databaseAddress.describe(
    'Address of PostgreSQL itself when DATABASE_URL is that of a pooler in transaction mode, such as pgbouncer: for notifications, migrations, backups and commands. Empty: DATABASE_URL.',
  ),
  BLOBS: z
    .string()
    .regex(BLOB_STORE, 'must be files, database or s3://bucket/folder')
    .transform(removeTrailingSlashes)
    .prefault('files')
    .meta({
      description:
        'Where package files and media are kept. files: in DATA_DIR/blobs. database: in PostgreSQL. s3://bucket/folder: in S3 or a compatible service. All processes of one database have the same; npm run -s operator -- move-blobs changes it.',
      values: 'files, database, s3://bucket/folder',
    }),
  BLOB_CACHE_MEGABYTES: wholeNumber(
    1,
    1_000_000,
    1_024,
    'Maximum size of DATA_DIR/blob-cache: copies of blobs from the database or S3.',
    'megabytes',
  ),
  AWS_ENDPOINT_URL: webAddress('Address of the S3-compatible service. Empty: https://s3.<AWS_REGION>.amazonaws.com.'),
  AWS_REGION: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'must be the name of a region, such as eu-central-1')
    .prefault('us-east-1')
    .describe('Region of the bucket. Compatible services mostly ignore it.'),
  AWS_ACCESS_KEY_ID: optionalText('Access key of the bucket. Required with BLOBS=s3://….'),
  AWS_SECRET_ACCESS_KEY: optionalText('Secret of the access key. Required with BLOBS=s3://….'),
  AWS_SESSION_TOKEN: optionalText('Token of temporary access keys. Empty: none.'),
  CLUSTER_KEY_FILE: optionalText(
    'File with the key (32 bytes in base64) under which the other keys are sealed in the database. With it, a second machine needs DATABASE_URL and this key only. Empty: keys are files in DATA_DIR/keys.',
  ),
  CLUSTER_KEY_COMMAND: optionalText(
    'Instead of CLUSTER_KEY_FILE: a program that prints the key, such as the command line of a key management service: words separated by spaces, run without a shell.',
  ),
  CLUSTER_KEY: optionalText(
    'Instead of CLUSTER_KEY_FILE: the key itself. A file or program is better: other processes of the same user can read the environment.',
  ),
  LOG_LEVEL: oneOf(['debug', 'info', 'warn', 'error'], 'info', 'Lowest level of the log lines that are written.'),
  HOST: listenHost(
    'Address that the API and the session API listen on. A name is resolved to its first IPv4 address, so localhost is 127.0.0.1 only. For all IPv4 and IPv6 addresses: ::.',
  ),
  PORT: port(4000, 'Port of the REST interface, the webhook address and the console.'),
  PUBLIC_URL: webAddress('Address at which users reach the API and the console. Empty: http://localhost:<PORT>.'),
  SUPERVISOR_PORT: port(4010, 'Port of the session API.'),
  SUPERVISOR_URL: webAddress(
    'Address at which agent runtimes and the console reach the session API. Empty: http://localhost:<SUPERVISOR_PORT>.',
  ),
  CONSOLE_COOKIE_DOMAIN: z
    .hostname('must be a domain, such as example.com')
    .optional()
    .describe(
      'Domain of the console’s session cookie. Needed only if PUBLIC_URL and SUPERVISOR_URL have different host names: the domain that both are below. Empty: the host of PUBLIC_URL only.',
    ),
  OPS_HOST: listenHost('Address that /healthz, /readyz and /metrics listen on. Do not expose it to the public.'),
  API_OPS_PORT: port(4001, "Port of the API's /healthz, /readyz and /metrics."),
  SUPERVISOR_OPS_PORT: port(4011, "Port of the supervisor's /healthz, /readyz and /metrics."),
  TRUST_PROXY: commaList(
    'addresses or networks (10.0.0.0/8)',
    isNetwork,
    'Reverse proxies in front of the API and the session API: addresses and networks (10.0.0.0/8), separated by commas. The client address is taken from their X-Forwarded-For. Empty: X-Forwarded-For is ignored.',
  ),
  STRANGER_REQUESTS_PER_MINUTE: wholeNumber(
    1,
    10_000_000,
    600,
    'Requests of one address without a valid token, in each process.',
    'a minute',
  ),
  OIDC_ISSUER: webAddress(
    'OpenID Connect issuer whose tokens are accepted instead of those that Bulkhead signs. If it does not answer, the service still starts and the log names it.',
  ),
  OIDC_AUDIENCE: optionalText('Audience of the issuer’s tokens. Required with OIDC_ISSUER.'),
  OIDC_CLIENT_ID: optionalText(
    'Client id with which the console signs in (code flow with PKCE). Empty: OIDC_AUDIENCE.',
  ),
  OIDC_CLIENTS: commaList(
    'client ids',
    () => true,
    'Client ids whose access tokens are accepted beside those of the console, separated by commas: agent runtimes, for example. *: those of every client to which the issuer gives tokens for OIDC_AUDIENCE.',
  ),
  OIDC_ACCESS_TOKENS: oneOf(
    ['at+jwt', 'jwt'],
    'at+jwt',
    'How the issuer marks access tokens. at+jwt: by their type (RFC 9068). jwt: it does not mark them. A token must then have a scope or another mark of an access token and none of an ID, refresh or logout token, and OIDC_AUDIENCE must not be a client id.',
  ),
  MIN_FREE_MEGABYTES: wholeNumber(
    0,
    1_000_000,
    64,
    'A process is not ready (/readyz) while the file system of DATA_DIR has less free space. 0: any free space will do.',
    'megabytes',
  ),
  DATABASE_CONNECTIONS: wholeNumber(2, 500, 20, 'Maximum number of database connections of each process.'),
  VERSION_BYTES: quota(limits.versionBytes, 'published versions'),
  DRAFT_BYTES: quota(limits.draftBytes, 'drafts'),
  BLOB_BYTES: quota(limits.blobBytes, 'files of publishes, drafts and media written within three hours'),
  TRANSCRIPT_BYTES: quota(limits.transcriptBytes, 'sessions and their messages'),
  DELIVERY_BYTES: quota(limits.deliveryBytes, 'webhook requests, replies and events'),
  MEDIA_BYTES: quota(limits.mediaBytes, 'files of host.media and of sessions'),
  WORKSPACE_BYTES: quota(limits.workspaceBytes, 'host.workspace'),
  STORAGE_BYTES: wholeNumber(KIB, 64 * MIB, limits.storageBytes, 'host.storage of one installation.', 'bytes'),
  LOG_BYTES: quota(limits.logBytes, 'log lines; new lines replace the oldest'),
  AUDIT_BYTES: quota(limits.auditBytes, 'audit entries; new entries replace the oldest'),
} as const;

/** Settings of `npm start` only. */
export const localSettings = {
  READY_SECONDS: wholeNumber(
    1,
    3_600,
    30,
    'At a replacement (SIGUSR2): the time in which a new process that has started must answer /readyz with 200. Otherwise the old processes keep running.',
    'seconds',
  ),
  SANDBOX_FETCH: oneOf(
    ['on', 'off'],
    'on',
    'on: where bubblewrap, or the libatomic that Node needs, is not installed, npm start downloads the package of this Debian or Ubuntu release with apt and unpacks it below DATA_DIR and node_modules. It installs nothing. off: npm start downloads nothing.',
  ),
} as const;

export type SharedSettings = z.output<z.ZodObject<typeof sharedSettings>>;

/**
 * Parses the environment. Ignores unknown variables; an empty variable counts as absent.
 *
 * @param shape the settings by variable name
 * @throws SettingsError naming the first invalid setting, without its value, which may be a secret
 */
export function parseSettings<Shape extends z.ZodRawShape>(
  shape: Shape,
  env: Environment,
): z.output<z.ZodObject<Shape>> {
  const present = Object.fromEntries(
    Object.keys(shape).flatMap((name) => (env[name] === undefined || env[name] === '' ? [] : [[name, env[name]]])),
  );
  const parsed = z.object(shape).safeParse(present, { error: describeFieldFault });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new SettingsError(`${String(issue?.path[0])} ${issue?.message ?? 'is not valid'}.`);
  }
  if (present.OIDC_ISSUER !== undefined && present.OIDC_AUDIENCE === undefined && 'OIDC_AUDIENCE' in shape) {
    throw new SettingsError('OIDC_AUDIENCE must be set when OIDC_ISSUER is set.');
  }
  refuseClientAudience(present);
  refuseForeignCookieDomain(present);
  return parsed.data;
}

/** Without a type, only the audience tells an ID token: it is the client id. */
function refuseClientAudience(present: Readonly<Record<string, string | undefined>>): void {
  const { OIDC_ACCESS_TOKENS: form, OIDC_AUDIENCE: audience, OIDC_CLIENT_ID, OIDC_CLIENTS = '' } = present;
  if (form !== 'jwt' || audience === undefined) return;
  const others = OIDC_CLIENTS.split(',').map((client) => client.trim());
  if (OIDC_CLIENT_ID !== undefined && ![OIDC_CLIENT_ID, ...others].includes(audience)) return;
  throw new SettingsError(
    'OIDC_ACCESS_TOKENS=jwt needs an OIDC_CLIENT_ID, and an OIDC_AUDIENCE that is not a client id: ID tokens have the client id as audience.',
  );
}

/** Browsers drop a cookie of a domain that the page is not below, so users could not sign in to the console. */
function refuseForeignCookieDomain({ CONSOLE_COOKIE_DOMAIN: domain, PUBLIC_URL }: Environment): void {
  if (domain === undefined || isBelowDomain(PUBLIC_URL, domain)) return;
  throw new SettingsError(
    'CONSOLE_COOKIE_DOMAIN must be the host name of PUBLIC_URL or a domain above it: browsers keep no cookie of another one.',
  );
}

/** @param url undefined: an address of localhost */
const readHost = (url: string | undefined): string => (url === undefined ? 'localhost' : new URL(url).hostname);

const isBelowDomain = (url: string | undefined, domain: string): boolean =>
  `.${readHost(url)}`.endsWith(`.${domain.toLowerCase()}`);

/** Describes settings that are valid but do not work together. @returns one sentence for each */
export function describeConflictingSettings(settings: SharedSettings): readonly string[] {
  const { CONSOLE_COOKIE_DOMAIN: domain, OIDC_ISSUER, OIDC_AUDIENCE, OIDC_CLIENT_ID } = settings;
  const conflicts: string[] = [];
  if (domain === undefined && readHost(settings.PUBLIC_URL) !== readHost(settings.SUPERVISOR_URL))
    conflicts.push(
      'PUBLIC_URL and SUPERVISOR_URL have different host names, so browsers do not send the console’s cookie to the session API: set CONSOLE_COOKIE_DOMAIN to a domain that both are below.',
    );
  if (domain !== undefined && !isBelowDomain(settings.SUPERVISOR_URL, domain))
    conflicts.push(
      'SUPERVISOR_URL is not below CONSOLE_COOKIE_DOMAIN, so the console cannot call the session API: set CONSOLE_COOKIE_DOMAIN to a domain that PUBLIC_URL and SUPERVISOR_URL are both below.',
    );
  if (OIDC_ISSUER === undefined && (OIDC_AUDIENCE ?? OIDC_CLIENT_ID) !== undefined)
    conflicts.push(
      'OIDC_AUDIENCE and OIDC_CLIENT_ID have no effect without OIDC_ISSUER: Bulkhead signs and accepts its own tokens. Set OIDC_ISSUER, or remove the two.',
    );
  return conflicts;
}

/**
 * `npm start` sets it for its processes: they have the variables of `.env` from it. If they read the file again, the lines that were added
 * since would apply to a process that is replaced or restarted, and those that were changed or removed would not.
 */
export const ENV_FILE_READ_VARIABLE = 'BULKHEAD_ENV_FILE_READ';

/** Returns the environment, plus variables from a file `.env` in the working directory. Existing variables win. */
export function readEnvironment(): Environment {
  if (process.env[ENV_FILE_READ_VARIABLE] !== undefined) return process.env;
  for (const [name, value] of Object.entries(readEnvironmentFile())) process.env[name] ??= value;
  return process.env;
}

/** Returns the variables of the file `.env` in the working directory, if there is one. */
export function readEnvironmentFile(): Environment {
  return existsSync('.env') ? parseEnv(readFileSync('.env', 'utf8')) : {};
}

/** The setting with the address that migrations, backups and commands use: a pooler in transaction mode cannot serve them. */
export const pickSessionSetting = ({ DATABASE_SESSION_URL }: Pick<SharedSettings, 'DATABASE_SESSION_URL'>) =>
  DATABASE_SESSION_URL === undefined ? 'DATABASE_URL' : 'DATABASE_SESSION_URL';

/** The address of API and console for users, without a slash at the end. */
export function publicUrl(settings: Pick<SharedSettings, 'PUBLIC_URL' | 'PORT'>): string {
  return settings.PUBLIC_URL ?? `http://localhost:${settings.PORT}`;
}

/** The address of the session API for agent runtimes and the console, without a slash at the end. */
export function supervisorUrl(settings: Pick<SharedSettings, 'SUPERVISOR_URL' | 'SUPERVISOR_PORT'>): string {
  return settings.SUPERVISOR_URL ?? `http://localhost:${settings.SUPERVISOR_PORT}`;
}

export interface SettingDoc {
  readonly name: string;
  readonly doc: string;
  /** The default as written in the environment; null: no default. */
  readonly fallback: string | null;
  /** Unit of a number; null: a plain count, or not a number. */
  readonly unit: string | null;
  /** Allowed values, a range or words; null: see `doc`. */
  readonly values: string | null;
}

/** Describes the settings of a shape, in order. */
export function describeSettings(shape: z.ZodRawShape): SettingDoc[] {
  return Object.entries(shape).map(([name, schema]) => ({
    name,
    doc: (schema instanceof z.ZodType && schema.description) || '',
    fallback: schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : null,
    ...readUnitAndValues(schema),
  }));
}

function readUnitAndValues(schema: unknown): Pick<SettingDoc, 'unit' | 'values'> {
  const { unit, values } = (schema instanceof z.ZodType && schema.meta()) || {};
  return { unit: typeof unit === 'string' ? unit : null, values: typeof values === 'string' ? values : null };
}
