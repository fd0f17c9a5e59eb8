import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { startEmbedded } from '../../db/postgres/embedded.ts';
import { migrate } from '../../db/postgres/migrate.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { issueToken } from '../../deploy/issue-token.ts';
import { SignIn } from '../../service/identity/sign-in.ts';
import { openVerifier } from '../../service/identity/tokens.ts';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { amount, isSoak } from '../runner/soak.ts';

const run = promisify(execFile);
const SCRIPT = fileURLToPath(new URL('../../deploy/token.ts', import.meta.url));

function token(words: string[], env: Record<string, string>): Promise<{ stdout: string; stderr: string }> {
  // A folder without a developer's `.env`.
  return run(process.execPath, [SCRIPT, ...words], { cwd: '/', env: { ...bareEnvironment, ...env } });
}

/** One database for the tests that need any: each has user names of its own. */
const DATA_DIR = await temporaryFolder(t);
const { url, pool } = await testDatabase(t);

t.test('prints one token and makes the account, with any DATABASE_URL', async (t) => {
  const { stdout, stderr } = await token(['ann', '--operator'], { DATA_DIR, DATABASE_URL: url });
  t.match(stdout, /^[\w-]+\.[\w-]+\.[\w-]+\n$/);
  t.equal(stderr, '');
  t.equal((await findOrCreateAccount(pool, 'ann')).operator, true);
  const verifier = await openVerifier({ DATA_DIR, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  t.equal((await verifier.verify(stdout.trim())).subject, 'ann');
});

t.test('the composed and the decomposed form of a name are one account', async (t) => {
  const env = { DATA_DIR, DATABASE_URL: url };
  const verifier = await openVerifier({ DATA_DIR, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  for (const form of ['NFD', 'NFC']) {
    const printed = await issueToken(['Jörg'.normalize(form)], () => env);
    t.equal((await verifier.verify(printed.trim())).subject, 'Jörg'.normalize('NFC'), form);
  }
  t.same((await pool.query("SELECT name FROM accounts WHERE name LIKE 'J%'")).rows, [
    { name: 'Jörg'.normalize('NFC') },
  ]);
});

t.test(
  'seals no key under a cluster key that no process has started with, such as that of a mistyped file',
  async (t) => {
    await issueToken(['ann'], () => ({ DATA_DIR, DATABASE_URL: url }));
    const CLUSTER_KEY_FILE = join(await temporaryFolder(t), 'other.key');
    await writeFile(CLUSTER_KEY_FILE, randomBytes(32).toString('base64'));
    await t.rejects(
      issueToken(['ann'], () => ({ DATA_DIR, DATABASE_URL: url, CLUSTER_KEY_FILE })),
      { message: /^This command has a cluster key, but no process of this database has started with one/ },
    );
    t.equal((await pool.query('SELECT FROM recorded_keys WHERE sealed IS NOT NULL')).rowCount, 0);
  },
);

t.test('says so if the name belongs to an account of another issuer', async (t) => {
  await findOrCreateAccount(pool, 'bob', 'https://issuer.example');
  const printed = t.capture(console, 'error', () => undefined);
  await issueToken(['bob'], () => ({ DATA_DIR, DATABASE_URL: url }));
  t.match(
    printed().map(({ args }) => args),
    [['“bob” is an account of another issuer. This is for “bob@bulkhead”, of the built-in issuer.']],
  );
});

t.test('--scopes limits what the token may do', async (t) => {
  const env = { DATA_DIR, DATABASE_URL: url };
  const limited = await issueToken(['ann', '--scopes', 'sessions:read, account:read'], () => env);
  const verifier = await openVerifier({ DATA_DIR, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  const signIn = new SignIn(pool, verifier);
  t.match(await signIn.signIn(limited.trim()), { name: 'ann', scopes: ['sessions:read', 'account:read'] });
  const wide = await issueToken(['ann'], () => env);
  t.match(await signIn.signIn(wide.trim()), { name: 'ann', scopes: null });
});

t.test('prints a link that signs in to the console once, and no token', async (t) => {
  const env = { DATA_DIR, DATABASE_URL: url, PUBLIC_URL: 'https://bulkhead.example' };
  const link = await issueToken(['ann', '--link'], () => env);
  t.match(link, /^https:\/\/bulkhead\.example\/#code=[\w-]{43}$/);
  const { rows } = await pool.query(
    `SELECT name, c.id, extract(epoch FROM expires_at - now())::int AS seconds FROM sign_in_codes c JOIN accounts a ON a.id = account_id`,
  );
  t.match(rows, [{ name: 'ann', seconds: Number }]);
  t.ok(rows[0].seconds > 280 && rows[0].seconds <= 300);
  t.notOk(link.includes(rows[0].id), 'the database has only a hash');
});

t.test('works while no service runs, several at once, and beside a running one', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  await (await startEmbedded({ dataDir: DATA_DIR })).stop();
  const users = amount({ quick: ['ann', 'bob'], soak: ['ann', 'bob', 'cy'] });
  const printed = await Promise.all(users.map((user) => token([user], { DATA_DIR })));
  for (const { stdout } of printed) t.match(stdout, /^[\w-]+\.[\w-]+\.[\w-]+\n$/);
  const service = await startEmbedded({ dataDir: DATA_DIR });
  await migrate(service.url);
  await token(['dora'], { DATA_DIR });
  const database = openPool(service.url, { name: 'test', connections: 1, onError: () => undefined });
  const found = await database.pool.query('SELECT name FROM accounts ORDER BY name');
  t.same(
    found.rows.map((row) => row.name),
    [...users, 'dora'],
  );
  await database.close();
  await service.stop();
});

t.test('without a database in DATA_DIR it creates nothing', async (t) => {
  const DATA_DIR = join(await temporaryFolder(t), 'mistyped');
  t.match(await token(['ann'], { DATA_DIR }).catch((error: unknown) => error), {
    code: 1,
    stdout: '',
    stderr: `There is no database in DATA_DIR ${DATA_DIR}. Set DATA_DIR to the folder of your service, or start the service first (npm start).\n`,
  });
  t.notOk(existsSync(DATA_DIR));
});

t.test('an error is one sentence, and no token is printed', async (t) => {
  const DATA_DIR = await temporaryFolder(t);
  const wrong: [string[], Record<string, string>, RegExp][] = [
    [[], {}, /Give one user name/],
    [['a', 'b'], {}, /Give one user name/],
    [['a\nb'], {}, /^The user name contains U\+000A, a control, direction or invisible character; remove it\.$/],
    [['a\u202eb'], {}, /^The user name contains U\+202E,/],
    [[''], {}, /^The user name must not be empty\.$/],
    [[' '], {}, /^The user name must not start or end with white space\.$/],
    [['ann '], {}, /^The user name must not start or end with white space\.$/],
    [['\u00a0ann'], {}, /^The user name must not start or end with white space\.$/],
    [['a'.repeat(201)], {}, /^The user name must be at most 200 characters\.$/],
    [['ann', '--admin'], {}, /--admin/],
    [
      ['ann', '--scopes', 'sessions:read,all'],
      {},
      /^There is no scope all\. Scopes: sessions:read, sessions:write, account:read\.$/,
    ],
    [['ann', '--scopes', ' '], {}, /^Give at least one scope\. Scopes: sessions:read/],
    [['ann', '--scopes', 'account:read', '--operator'], {}, /Leave out --operator and --link/],
    [['ann', '--scopes', 'account:read', '--link'], {}, /Leave out --operator and --link/],
    [['ann'], { PORT: 'x' }, /^PORT must be/],
    [['ann'], { OIDC_ISSUER: 'https://i.example', OIDC_AUDIENCE: 'us' }, /tokens come from https:\/\/i.example/],
  ];
  for (const [words, env, sentence] of wrong) {
    await t.rejects(
      issueToken(words, () => ({ DATA_DIR, ...env })),
      { message: sentence },
    );
  }
  if (isSoak()) {
    const failed = await token([], { DATA_DIR }).catch((error: unknown) => error);
    t.match(failed, { code: 1, stdout: '', stderr: /^Give one user name/ });
  }
  t.match(
    await issueToken(['--help'], () => ({})),
    /^Usage: npm run -s token.*--scopes.*sessions:write {3}Everything/s,
  );
});
