import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import t from 'tap';
import { createDatabaseFault } from '../../service/lifecycle/start-faults.ts';
import {
  describeConflictingSettings,
  parseSettings,
  publicUrl,
  SettingsError,
  type SharedSettings,
  sharedSettings,
  supervisorUrl,
} from '../../service/settings/settings.ts';
import { describeUnknownNames } from '../../service/settings/unknown-names.ts';

const parse = (env: Record<string, string>): SharedSettings => parseSettings(sharedSettings, env);

t.test('without marked access tokens, the audience must not be a client id', async (t) => {
  const env = { OIDC_ISSUER: 'https://issuer.example', OIDC_AUDIENCE: 'api', OIDC_ACCESS_TOKENS: 'jwt' };
  const message = /^OIDC_ACCESS_TOKENS=jwt needs an OIDC_CLIENT_ID, and an OIDC_AUDIENCE that is not a client id: /;
  t.throws(() => parse(env), { message });
  t.throws(() => parse({ ...env, OIDC_CLIENT_ID: 'api' }), { message });
  t.throws(() => parse({ ...env, OIDC_CLIENT_ID: 'console', OIDC_CLIENTS: 'runtime, api' }), { message });
  t.match(parse({ ...env, OIDC_CLIENT_ID: 'console', OIDC_CLIENTS: 'one, two,' }), { OIDC_CLIENTS: ['one', 'two'] });
  t.match(parse({ ...env, OIDC_ACCESS_TOKENS: '' }), { OIDC_ACCESS_TOKENS: 'at+jwt', OIDC_CLIENTS: [] });
});

t.test('everything has a default; an empty variable counts as absent', async (t) => {
  const settings = parse({ PORT: '', DATABASE_URL: '', UNRELATED: 'x' });
  t.equal(settings.PORT, 4000);
  t.equal(settings.DATA_DIR, resolve('.bulkhead'));
  t.equal(settings.DATABASE_URL, undefined);
  t.equal(publicUrl(settings), 'http://localhost:4000');
  t.equal(supervisorUrl(settings), 'http://localhost:4010');
  t.notOk('UNRELATED' in settings);
  t.same(settings.TRUST_PROXY, [], 'no proxy is believed');
});

t.test('proxies are addresses and networks', async (t) => {
  t.same(parse({ TRUST_PROXY: '10.0.0.0/8, ::1,2001:db8::/32,' }).TRUST_PROXY, ['10.0.0.0/8', '::1', '2001:db8::/32']);
});

t.test('addresses follow the ports, and lose a slash at the end', async (t) => {
  t.equal(publicUrl(parse({ PORT: '8080' })), 'http://localhost:8080');
  t.equal(publicUrl(parse({ PUBLIC_URL: 'https://bulkhead.example//' })), 'https://bulkhead.example');
  t.equal(publicUrl(parse({ PUBLIC_URL: 'https://example.com/@bulkhead/' })), 'https://example.com/@bulkhead');
});

t.test('a bad setting is refused in one sentence that names it and does not repeat it', async (t) => {
  const bad: Record<string, string>[] = [
    { PORT: 'abc' },
    ...['true', '10.0.0.0/0', '10.0.0.0/33', '::1/129', '10.0.0', 'proxy', '1', '10.0.0.1/8/8'].map((list) => ({
      TRUST_PROXY: `127.0.0.1, ${list}`,
    })),
    { PORT: '0' },
    { PORT: '65536' },
    { PORT: '0x10' },
    { PORT: ' 4000' },
    { PORT: '4e3' },
    { LOG_LEVEL: 'loud' },
    { DATABASE_URL: 'mysql://user:geheim@host/db' },
    { PUBLIC_URL: 'ftp://x' },
    { PUBLIC_URL: 'localhost' },
    { PUBLIC_URL: 'https://bulkhead.example/?' },
    { SUPERVISOR_URL: 'https://agents.example/#here' },
    { SUPERVISOR_URL: 'https://user:geheim@agents.example' },
    { AWS_ENDPOINT_URL: 'https://key@s3.example' },
    { OIDC_ISSUER: 'https://issuer.example' },
    { CONSOLE_COOKIE_DOMAIN: 'evil.example' },
    { CONSOLE_COOKIE_DOMAIN: 'b.example', PUBLIC_URL: 'https://ab.example' },
  ];
  for (const env of bad) {
    const [[name = '', value = ''] = []] = Object.entries(env);
    const error = t.throws(() => parse(env), SettingsError);
    const message = error instanceof Error ? error.message : '';
    t.match(message, name === 'OIDC_ISSUER' ? /^OIDC_AUDIENCE must .*\.$/ : new RegExp(`^${name} must .*\\.$`));
    t.notOk(value.length > 3 && message.includes(value) && name !== 'OIDC_ISSUER', `${name}=${value}`);
  }
});

t.test('the error of an address that its password ends says how to write the password', async (t) => {
  const advice = /; if its password has @, #, \/ or %, write %40, %23, %2F or %25\.$/;
  const error = t.throws(() => parse({ DATABASE_URL: 'postgres://bulkhead:a#b@db/bulkhead' }), SettingsError);
  t.match(error instanceof Error ? error.message : '', advice);
  t.match(createDatabaseFault('DATABASE_URL', new Error('getaddrinfo ENOTFOUND b')).message, advice);
  t.notMatch(createDatabaseFault('DATABASE_URL', new Error('connect ECONNREFUSED')).message, /password/);
});

t.test('settings that do not work together are reported', async (t) => {
  const url = 'https://plugins.b.example';
  const env = { CONSOLE_COOKIE_DOMAIN: 'B.example', PUBLIC_URL: url, SUPERVISOR_URL: 'https://agents.b.example' };
  t.same(describeConflictingSettings(parse(env)), []);
  t.match(describeConflictingSettings(parse({ ...env, SUPERVISOR_URL: 'https://agents.c.example' })), [
    /^SUPERVISOR_URL is not below CONSOLE_COOKIE_DOMAIN, .*\.$/,
  ]);
  t.match(describeConflictingSettings(parse({ PUBLIC_URL: url, SUPERVISOR_URL: env.SUPERVISOR_URL })), [
    /^PUBLIC_URL and SUPERVISOR_URL have different host names, .*\.$/,
  ]);
  t.same(describeConflictingSettings(parse({ PUBLIC_URL: url, SUPERVISOR_URL: `${url}:8443` })), []);
  t.match(describeConflictingSettings(parse({ OIDC_AUDIENCE: 'api' })), [/have no effect without OIDC_ISSUER: .*\.$/]);
});

t.test('misspelt names are reported: those of the environment if they are nearly a setting, all of .env', async (t) => {
  const others = {
    HOME: '/',
    PGHOST: 'db',
    PGPORT: '1',
    LANG: 'C',
    NO_PROXY: '',
    POSTGRES_PASSWORD: 'x',
    DRAFT_BYTES: '1',
  };
  t.same(describeUnknownNames({ ...others, DATABSE_URL: 'x', CHILDREN: '3' }, {}), [
    'DATABSE_URL is not a setting and has no effect. Did you mean DATABASE_URL?',
  ]);
  const file = { SPOOL_MEGABYTE: '1', port: '1', ACME_KEY: 'x', OTEL_SERVICE_NAME: 'x', PORT: '1' };
  t.same(describeUnknownNames({ ...file, ...others }, file), [
    'SPOOL_MEGABYTE in .env is not a setting and has no effect. Did you mean SPOOL_MEGABYTES?',
    'port in .env is not a setting and has no effect. Did you mean PORT?',
    'ACME_KEY in .env is not a setting and has no effect. docs/settings.md lists the settings.',
  ]);
  const machine = parseEnv(readFileSync(new URL('../../deploy/ha/machine.env.example', import.meta.url), 'utf8'));
  t.same(describeUnknownNames(machine, {}), [], 'of the other services of a machine');
  t.same(describeUnknownNames({ ACME_KEY: 'x', MODELS_FILE: 'models.json' }, { ACME_KEY: 'x' }), []);
});
