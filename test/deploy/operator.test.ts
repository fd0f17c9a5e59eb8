import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { findPluginBySlug, insertPlugin } from '../../db/catalog/plugins.ts';
import { MIGRATIONS, migrate } from '../../db/postgres/migrate.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { issueToken } from '../../deploy/issue-token.ts';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { eventually } from '../runner/eventually.ts';
import { emptyDatabase, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { isSoak } from '../runner/soak.ts';
import { cutOff, operator, operatorProcess } from './operator-command.ts';

const run = promisify(execFile);
const MIGRATE = fileURLToPath(new URL('../../deploy/migrate.ts', import.meta.url));

t.test('verifies authors and blocks plugins with any DATABASE_URL, and reports it', async (t) => {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const runOperator = async (...words: string[]) => (await operator({ DATABASE_URL }, ...words)).stdout;
  const { id: ownerId } = await findOrCreateAccount(pool, 'ann');
  await insertPlugin(pool, { ownerId, slug: 'spy', displayName: 'Spy', description: '' });
  const verifyAnn = isSoak() ? operatorProcess : operator;
  t.match(await verifyAnn({ DATABASE_URL }, 'verify', 'ann'), {
    code: 0,
    stdout: /^“ann” is verified.*\n$/,
    stderr: '',
  });
  const { verifiedAt } = await findOrCreateAccount(pool, 'ann');
  t.ok(verifiedAt);
  t.same(JSON.parse(await runOperator('verify', 'ann', '--json')), { command: 'verify', user: 'ann', verified: true });
  t.same((await findOrCreateAccount(pool, 'ann')).verifiedAt, verifiedAt, 'again changes nothing');
  t.match(await runOperator('unverify', 'ann'), /no longer/);
  t.equal((await findOrCreateAccount(pool, 'ann')).verifiedAt, null);
  t.match(
    await runOperator('block', 'spy', '--reason', ' it phones home '),
    /“spy” is blocked: it phones.*\(0 installations notified\)/,
  );
  t.equal((await findPluginBySlug(pool, 'spy'))?.blockedReason, 'it phones home');
  const blocked = JSON.parse(await runOperator('block', 'spy', '--reason', 'worse', '--json'));
  t.same(blocked, { command: 'block', slug: 'spy', reason: 'worse', installations: 0, changed: true });
  t.equal(await runOperator('block', 'spy', '--reason', 'worse'), '“spy” is blocked: worse (as before)\n');
  t.equal(await runOperator('unblock', 'spy'), '“spy” is no longer blocked (0 installations notified).\n');
  t.equal((await findPluginBySlug(pool, 'spy'))?.blockedReason, null);
  t.equal(await runOperator('unblock', 'spy'), '“spy” was not blocked.\n');
  const { actions } = JSON.parse(await runOperator('actions', '--json'));
  t.same(
    actions.map(({ action, reason }: { action: string; reason: string | null }) => [action, reason]).slice(0, 3),
    [
      ['unblock', null],
      ['block', 'worse'],
      ['block', 'it phones home'],
    ],
    'what changed nothing is not recorded',
  );
});

t.test('docs/operating.md names the arguments of each command', async (t) => {
  const { stdout } = await operator({}, '--help');
  const synopses = new Map(
    [...stdout.matchAll(/^ {2}([a-z-]+) ((?:<[a-z]+> ?)+)/gm)].map(([, name, args = '']) => [name, args.trim()]),
  );
  const text = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8');
  const found = [...text.matchAll(/(?:`|operator -- |operator\.ts )([a-z-]+) ((?:<[a-z]+> ?)+)/g)].filter(([, name]) =>
    synopses.has(name),
  );
  for (const [command, name, args = ''] of found) t.equal(args.trim(), synopses.get(name), command);
  t.ok(found.length > 10, `${found.length} commands with arguments`);
});

t.test('a name in decomposed form means the account that the token command created', async (t) => {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const env = { DATABASE_URL, DATA_DIR: await temporaryFolder(t) };
  const [stored, given] = ['Jörg'.normalize('NFC'), 'Jörg'.normalize('NFD')];
  await issueToken([stored], () => env);
  const runs: [string, ...string[]][] = [
    ['suspend', given, '--reason', 'spam'],
    ['resume', given],
    ['appoint', given],
    ['demote', given],
    ['verify', given],
    ['tokens', given],
    ['revoke-tokens', given],
  ];
  for (const words of runs) t.match(await operator(env, ...words), { code: 0 }, words[0]);
  const { rows } = await pool.query('SELECT DISTINCT subject FROM operator_actions');
  t.same(rows, [{ subject: stored }]);
  // As an identity provider may choose it.
  await findOrCreateAccount(pool, given, 'https://issuer.example');
  t.match(JSON.parse((await operator(env, 'appoint', given, '--json')).stdout), { user: given });
  for (const part of [stored, given]) {
    const { accounts } = JSON.parse((await operator(env, 'accounts', '--name', part, '--json')).stdout);
    t.same(accounts.map(({ name }: { name: string }) => name).toSorted(), [stored, given].toSorted());
  }
});

t.test('suspends accounts, appoints and demotes operators, lists and revokes tokens, moves accounts', async (t) => {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const DATA_DIR = await temporaryFolder(t);
  const env = { DATABASE_URL, DATA_DIR };
  const runOperator = async (...words: string[]) => (await operator(env, ...words)).stdout;
  await issueToken(['ann', '--name', 'laptop'], () => env);
  t.match(await runOperator('tokens', 'ann'), /^TOKEN .*\n\S+ +laptop +all +\d{4}-.* - /);
  const [{ id }] = JSON.parse(await runOperator('tokens', 'ann', '--json')).tokens;
  t.match(await runOperator('revoke-token', 'ann', id), /revoked/);
  t.match(await operator(env, 'revoke-token', 'ann', id), { code: 1, stderr: /no token with the id/ });
  t.match(await runOperator('revoke-tokens', 'ann'), /All tokens of “ann” are revoked/);
  t.match(await operator(env, 'suspend', 'ann'), { code: 2, stderr: /suspend needs --reason/ });
  t.match(await runOperator('suspend', 'ann', '--reason', 'spam'), /“ann” is suspended: spam/);
  t.match(await runOperator('accounts', '--name', 'AN'), /ann +bulkhead +- +- +spam/);
  t.equal(await runOperator('resume', 'ann'), 'The suspension of “ann” has ended.\n');
  t.equal(await runOperator('resume', 'ann'), '“ann” was not suspended.\n');
  await issueToken(['bob'], () => env);
  for (const user of ['ann', 'bob']) t.equal(await runOperator('appoint', user), `“${user}” is an operator.\n`);
  t.equal(await runOperator('demote', 'bob'), '“bob” is no longer an operator.\n');
  t.equal(await runOperator('demote', 'bob'), '“bob” was not an operator.\n');
  t.equal(
    await runOperator('demote', 'ann'),
    '“ann” is no longer an operator. There is no other operator: appoint one with npm run -s operator -- appoint <user>.\n',
  );
  await runOperator('appoint', 'bob');
  await runOperator('appoint', 'ann');
  t.equal(await runOperator('suspend', 'bob', '--reason', 'leave'), '“bob” is suspended: leave\n');
  const suspended = await runOperator('suspend', 'bob', '--reason', 'leave', '--json');
  t.match(JSON.parse(suspended), { user: 'bob', reason: 'leave', hasOperators: true });
  t.match(await runOperator('suspend', 'ann', '--reason', 'theft'), /is suspended: theft\nThere is no other operator/);
  t.match(await runOperator('demote', 'bob'), /no longer an operator\. There is no other operator/, 'ann is suspended');
  t.match(JSON.parse(await runOperator('demote', 'bob', '--json')), { operator: false, hasOperators: false });
  await runOperator('demote', 'ann');
  for (const user of ['ann', 'bob']) await runOperator('resume', user);
  for (const word of ['resume', 'appoint', 'demote', 'tokens', 'revoke-tokens'])
    t.match(await operator(env, word, 'nobody'), { code: 1, stderr: /No account is named “nobody”/ });
  const { id: before } = await findOrCreateAccount(pool, 'ann');
  const issuer = 'https://issuer.example';
  await findOrCreateAccount(pool, 'ann', issuer);
  const oidc = { ...env, OIDC_ISSUER: `${issuer}/`, OIDC_AUDIENCE: 'api' };
  t.match(await operator(env, 'move-account', '--all'), { code: 2, stderr: /needs OIDC_ISSUER/ });
  t.match(await operator(oidc, 'move-account'), { code: 2, stderr: /Give user names, or --all/ });
  t.match(await operator(oidc, 'move-account', '--all', '--back'), { code: 2, stderr: /^Give user names with --back/ });
  t.match(
    (await operator(oidc, 'move-account', '--all')).stdout,
    /moved to https:\/\/issuer.example: ann, bob\. Accounts of the same subjects moved to the built-in issuer: ann@issuer.example\.\n$/,
  );
  t.equal((await findOrCreateAccount(pool, 'ann', issuer)).id, before, 'the account of before has its tokens again');
  const moveAnn = async (OIDC_ISSUER: string, ...words: string[]) =>
    await operator({ ...oidc, OIDC_ISSUER }, 'move-account', 'ann', ...words);
  t.match(await moveAnn(issuer), { code: 0, stdout: /moved to https:\/\/issuer.example: none\. There already: ann\./ });
  const misspelt = 'https://isuer.example';
  t.match(await moveAnn(misspelt), {
    code: 1,
    stderr: /“ann” is an account of another issuer, https:\/\/issuer.example\./,
  });
  t.match((await moveAnn(issuer, '--back')).stdout, /moved to the built-in issuer: ann\./);
  t.equal((await findOrCreateAccount(pool, 'ann')).id, before, 'the move is undone');
  t.match(await moveAnn(misspelt), { code: 0 });
  t.match(await moveAnn(misspelt, '--back'), { code: 0 });
  t.match((await moveAnn(issuer)).stdout, /moved to https:\/\/issuer.example: ann\./);
  t.equal((await findOrCreateAccount(pool, 'ann', issuer)).id, before);
  t.notMatch(await runOperator('accounts'), /More exist/);
  await pool.query(`INSERT INTO accounts (id, name, issuer, subject)
                    SELECT 'many-' || n, 'many-' || n, 'bulkhead', 'many-' || n FROM generate_series(1, 1001) AS n`);
  const accountNames = async (...words: string[]) => {
    const { accounts, nextCursor } = JSON.parse(await runOperator('accounts', ...words, '--json'));
    return { nextCursor, names: accounts.map(({ name }: { name: string }) => name) };
  };
  const { nextCursor } = await accountNames();
  const shown = await runOperator('accounts');
  t.ok(shown.endsWith(`\nMore exist: add --after ${nextCursor}\n`));
  await runOperator('appoint', 'bob');
  const last = await accountNames('--after', nextCursor);
  t.equal(last.nextCursor, null);
  t.equal(last.names.length, 4, 'ann, bob, the account of before, and the first of many');
  t.match(await operator(env, 'accounts', '--after', 'x'), { code: 1, stderr: /cursor is invalid/ });
  t.same(await accountNames('--operators'), { nextCursor: null, names: ['bob'] });
  await pool.query(
    `INSERT INTO tokens (id, account_id, name, expires_at)
     SELECT 'many-' || n, $1, 'many', now() + interval '1 day' FROM generate_series(1, 1001) AS n`,
    [(await findOrCreateAccount(pool, 'bob', issuer)).id],
  );
  t.match(await runOperator('tokens', 'bob'), /\nOnly the newest 1000 are listed. revoke-tokens also revokes/);
});

t.test('each action is recorded with operator, time and reason', async (t) => {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const runOperator = async (...words: string[]) => (await operator({ DATABASE_URL }, ...words)).stdout;
  t.match(await runOperator('actions'), /^No operator actions yet\.\n$/);
  const { id: ownerId } = await findOrCreateAccount(pool, 'ann');
  await insertPlugin(pool, { ownerId, slug: 'spy', displayName: 'Spy', description: '' });
  await runOperator('verify', 'ann');
  const failed = await operator({ DATABASE_URL }, 'verify', 'missing');
  t.match(failed, { code: 1, stdout: '', stderr: /No account/ });
  t.match(await operator({ DATABASE_URL }, 'block', 'nothing', '--reason', 'x'), { code: 1, stderr: /No plugin/ });
  const reason = ['--reason', 'it phones\nhome\u001b[31m'];
  await operatorProcess({ DATABASE_URL, SUDO_USER: 'olga' }, 'block', 'spy', ...reason);
  await runOperator('unblock', 'spy');
  const withFolder = { DATABASE_URL, DATA_DIR: await temporaryFolder(t) };
  await issueToken(['olga', '--operator'], () => withFolder);
  const oidc = { DATABASE_URL, OIDC_ISSUER: 'https://issuer.example', OIDC_AUDIENCE: 'api' };
  t.match(await operator(oidc, 'move-account', 'ann'), { code: 0 });
  const { command, actions } = JSON.parse(await runOperator('actions', '--json'));
  t.equal(command, 'actions');
  const me = `${userInfo().username}@${hostname()}`;
  t.match(actions, [
    { by: me, action: 'move-account', subject: 'ann', reason: 'to https://issuer.example' },
    { by: me, action: 'appoint', subject: 'olga', reason: null },
    { by: me, action: 'unblock', subject: 'spy', reason: null },
    { by: `olga as ${me}`, action: 'block', subject: 'spy', reason: 'it phones\nhome\u001b[31m' },
    { by: me, action: 'verify', subject: 'ann', reason: null },
  ]);
  t.equal(actions.length, 5, 'what could not be done is not there');
  const now = Date.now();
  for (const { at } of actions) t.ok(Math.abs(now - Date.parse(at)) < 60_000, at);
  const lines = (await runOperator('actions')).trimEnd().split('\n');
  t.equal(lines.length, 5, 'a line each');
  t.match(lines[3], /Z {2}olga as .* {2}block spy: it phones\ufffdhome\ufffd\[31m$/);
});

t.test('no command, token or migration changes a database to which DATABASE_URL does not lead', async (t) => {
  const [{ url: DATABASE_URL }, production, DATA_DIR] = await Promise.all([
    testDatabase(t),
    testDatabase(t),
    temporaryFolder(t),
  ]);
  await findOrCreateAccount(production.pool, 'ann');
  const env = { DATA_DIR, DATABASE_URL, DATABASE_SESSION_URL: production.url };
  const file = join(DATA_DIR, 'x.backup');
  const backup = { DATABASE_URL: production.url, DATA_DIR: await temporaryFolder(t) };
  await issueToken(['ann'], () => backup);
  t.match(await operator(backup, 'backup', file), { code: 0 });
  const refused = { code: 1, stderr: /DATABASE_URL and DATABASE_SESSION_URL lead to different databases/ };
  await Promise.all([
    t.resolveMatch(operator(env, 'appoint', 'ann'), refused),
    t.resolveMatch(operator(env, 'restore', file), refused),
    t.rejects(
      issueToken(['ann'], () => env),
      { message: refused.stderr },
    ),
    isSoak() && t.rejects(run(process.execPath, [MIGRATE], { cwd: '/', env: { ...bareEnvironment, ...env } }), refused),
  ]);
  t.equal((await findOrCreateAccount(production.pool, 'ann')).operator, false);
  const { DATABASE_URL: _, ...half } = env;
  t.match(await operator(half, 'accounts'), {
    code: 1,
    stderr: /^DATABASE_SESSION_URL is set, but DATABASE_URL is not: /,
  });
});

t.test('actions that are followed by many others are found', async (t) => {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const runOperator = async (...words: string[]) => (await operator({ DATABASE_URL }, ...words)).stdout;
  await findOrCreateAccount(pool, 'thief');
  await runOperator('appoint', 'thief');
  await pool.query(`INSERT INTO operator_actions (by, action, subject)
                    SELECT 'thief (REST)', 'verify', 'a' || n FROM generate_series(1, 1001) AS n`);
  const [, after = ''] = /\nMore exist: add --after (\d+)\n$/.exec(await runOperator('actions')) ?? [];
  const lines = (await runOperator('actions', '--after', after)).trimEnd().split('\n');
  t.match(lines, [/ verify a1$/, / appoint thief$/]);
  t.equal(lines.length, 2);
  t.match(JSON.parse(await runOperator('actions', '--after', after, '--json')), { nextCursor: null });
});

t.test('errors are printed as a sentence, or as JSON with --json', async (t) => {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const { id: ownerId } = await findOrCreateAccount(pool, 'ann');
  await insertPlugin(pool, { ownerId, slug: 'weather', displayName: 'Weather', description: '' });
  const wrong: [string[], RegExp, number][] = [
    [[], /Give a command/, 2],
    [['verify'], /^Usage: verify <user>/, 2],
    [['verify', 'a', 'b'], /^Usage: verify <user>/, 2],
    [['toString', 'a'], /Unknown command “toString”/, 2],
    [['actions', 'a'], /^Usage: actions/, 2],
    [['actions', '--reason', 'x'], /--reason/, 2],
    [['actions', '--limit', '0'], /--limit must be a whole number from 1 to 1000/, 2],
    [['block', 'spy'], /needs --reason/, 2],
    [['block', 'spy', '--reason', '  '], /needs --reason/, 2],
    [['block', 'spy', '--reason', 'x'.repeat(501)], /at most 500/, 2],
    [['unblock', 'spy', '--reason', 'x'], /--reason/, 2],
    [['unblock', 'spy'], /No plugin has the slug “spy”/, 1],
    [['block', 'spy', '--reason', 'x', '--json'], /^\{"error":"No plugin has the slug “spy”."\}\n$/, 1],
    [['verify', 'a', '--loud'], /--loud/, 2],
    [['fleet', '--state', 'bogus'], /--state must be one of starting, running, /, 2],
    [['installations', '--status', 'bogus'], /--status must be one of ready, needs_configuration, /, 2],
    [['installations', '--plugin', 'wether'], /No plugin has the slug “wether”\. Did you mean “weather”\?/, 1],
    [['installations', '--user', 'anm'], /No account is named “anm”\. Did you mean “ann”\?/, 1],
    [['restart', 'nothing'], /No installation has the id “nothing”/, 1],
    [['replay'], /ids, --installation or --all/, 2],
    [['replay', 'nothing'], /No finished delivery or event/, 1],
    [['replay', '--installation', 'nothing'], /No installation has the id “nothing”/, 1],
    [['dead-letters', '--installation', 'nothing'], /No installation has the id “nothing”/, 1],
    [['block', 'x', '-reason', 'spam'], /^Options begin with two dashes: --reason\./, 2],
    [['help', 'blok'], /^Unknown command “blok”/, 2],
    [['check-backup', '/nowhere/x'], /^\/nowhere\/x does not exist/, 1],
  ];
  for (const [words, sentence, code] of wrong) {
    t.match(await operator({ DATABASE_URL }, ...words), { code, stdout: '', stderr: sentence }, words.join(' '));
  }
  const wrongProcess = isSoak() ? operatorProcess : operator;
  t.match(await wrongProcess({ DATABASE_URL }, 'verify'), {
    code: 2,
    stdout: '',
    stderr: /^Usage: verify <user>\n\nSee .* verify --help/,
  });
  for (const words of [['--help'], ['-h'], ['help']]) {
    t.match(await operator({ DATABASE_URL }, ...words), { code: 0, stdout: /^Usage: .* <command>/ }, words.join(' '));
  }
  for (const words of [
    ['block', '--help'],
    ['block', 'x', '-h'],
    ['help', 'block'],
  ]) {
    const usage = /^Usage: .* block <slug> --reason <reason>\n/;
    t.match(await operator({ DATABASE_URL }, ...words), { code: 0, stdout: usage }, words.join(' '));
  }
});

const OLDER = /^The tables are those of an older release: .* npm start applies the migrations\.\n$/;

t.test('no command migrates: on the tables of an older release, one that writes is refused', async (t) => {
  const { url, pool } = await testDatabase(t);
  const name = `${new URL(url).pathname.slice(1)}_older`;
  await pool.query(`CREATE DATABASE ${name}`);
  t.teardown(() => pool.query(`DROP DATABASE ${name} WITH (FORCE)`));
  const older = new URL(url);
  older.pathname = `/${name}`;
  const env = { DATABASE_URL: older.href, DATA_DIR: await temporaryFolder(t) };
  const admin = openPool(older.href, { name: 'admin', connections: 1, onError: () => undefined });
  t.teardown(() => admin.close());
  const readers = [['fleet'], ['installations'], ['dead-letters'], ['actions'], ['prune', '--dry-run']];
  const listTables = () => admin.pool.query("SELECT 1 FROM pg_tables WHERE schemaname = 'public'");
  const none =
    /^The database has no tables (of Bulkhead yet\. npm start creates them\.|yet: .* Nothing was removed\.)\n$/;
  for (const words of readers) t.match(await operator(env, ...words), { code: 1, stderr: none }, words.join(' '));
  const file = join(env.DATA_DIR, 'one.backup');
  t.match(await operator(env, 'backup', file), { code: 1, stderr: none }, 'nothing to back up');
  t.notOk(existsSync(file));
  t.equal((await listTables()).rows.length, 0);
  const all = (await readdir(MIGRATIONS)).length;
  await migrate(older.href, { count: all - 1 });
  for (const words of readers) t.match(await operator(env, ...words), { code: 0 }, words.join(' '));
  t.match(await operator(env, 'backup', file), { code: 0 }, 'a backup before an upgrade');
  await admin.pool.query('ALTER TABLE operator_actions RENAME TO from_another_release');
  t.match(await operator(env, 'actions'), {
    code: 1,
    stderr: OLDER,
  });
  await admin.pool.query('ALTER TABLE from_another_release RENAME TO operator_actions');
  const countApplied = async () => (await admin.pool.query('SELECT 1 FROM migrations')).rows.length;
  t.equal(await countApplied(), all - 1);
  for (const words of [
    ['block', 'weather', '--reason', 'spam'],
    ['verify', 'ann'],
    ['suspend', 'ann', '--reason', 'spam'],
    ['rotate-key'],
  ])
    t.match(await operator(env, ...words), { code: 1, stdout: '', stderr: OLDER }, words.join(' '));
  t.equal(await countApplied(), all - 1);
});

t.test('on the tables of a newer release, a command says so where it lacks a table', async (t) => {
  const { url, pool } = await testDatabase(t);
  const env = { DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  await pool.query('ALTER TABLE operator_actions RENAME TO actions_of_operators');
  const unknown = await operator(env, 'actions');
  t.match(unknown, { code: 1, stderr: /operator_actions/ }, 'an error of its own where no release explains it');
  t.notMatch(unknown.stderr, 'release');
  await pool.query(`INSERT INTO migrations (name, run_on) VALUES ('9999_newer', now())`);
  t.match(await operator(env, 'actions'), {
    code: 1,
    stderr: /^The tables are those of a newer release, which has the migration 9999_newer\. Run the command of .*\n$/,
  });
});

t.test('after an interrupted restore, no command migrates or backs up the database', async (t) => {
  const source = await emptyDatabase(t);
  await migrate(source.url, { count: (await readdir(MIGRATIONS)).length - 1 });
  await findOrCreateAccount(source.pool, 'ann');
  const folder = await temporaryFolder(t);
  mkdirSync(join(folder, 'workspaces'));
  writeFileSync(join(folder, 'workspaces', 'notes.txt'), 'rye');
  const file = join(await temporaryFolder(t), 'one.backup');
  const backedUp = await operator({ DATABASE_URL: source.url, DATA_DIR: folder }, 'backup', file);
  t.match(backedUp, { code: 0 }, backedUp.stderr);
  const target = await emptyDatabase(t);
  const env = { DATABASE_URL: target.url, DATA_DIR: await temporaryFolder(t) };
  // Its first table waits for another one of that name, so that it cannot end before it is killed.
  const holder = await target.pool.connect();
  await holder.query('BEGIN; CREATE TABLE migrations ()');
  await cutOff(env, /^1 files restored/, 'restore', file);
  await holder.query('ROLLBACK');
  holder.release();
  const connected = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name <> 'bulkhead-test'`;
  await eventually(async () => (await target.pool.query(connected)).rowCount === 0);
  const interrupted = new RegExp(`^A restore into ${env.DATA_DIR} was interrupted\\. Run .* restore <file> again`);
  const another = join(folder, 'another.backup');
  for (const words of [
    ['rotate-identity-key', '--revoke-old'],
    ['rotate-key'],
    ['accept-data-dir', '--yes'],
    ['backup', another],
    ['accounts'],
    ['suspend', 'ann', '--reason', 'spam'],
  ])
    t.match(await operator(env, ...words), { code: 1, stdout: '', stderr: interrupted }, words.join(' '));
  await t.rejects(
    issueToken(['eve'], () => env),
    { message: interrupted },
  );
  t.notOk(existsSync(another));
  t.match(await operator(env, 'restore', file), { code: 0 }, 'the restore can be repeated');
  t.match(await operator(env, 'accounts'), { code: 0, stdout: /ann/ });
});

t.test('a server that is too old is refused', async (t) => {
  const { url, pool } = await testDatabase(t);
  // Only the answer to the version query differs: a function that comes before PostgreSQL's own in the search path.
  await pool.query('CREATE SCHEMA older');
  await pool.query("CREATE FUNCTION older.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT '140012' $$");
  await pool.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET search_path = older, pg_catalog, public`);
  await t.rejects(migrate(url), { message: 'PostgreSQL 14 is too old: Bulkhead needs version 15 or newer.' });
});

t.test('for a role that may not create pg_trgm, the error says what to do', async (t) => {
  const { url, pool } = await testDatabase(t);
  const name = `${new URL(url).pathname.slice(1)}_foreign`;
  await pool.query(`CREATE DATABASE ${name}`);
  t.teardown(() => pool.query(`DROP DATABASE ${name} WITH (FORCE)`));
  const foreign = new URL(url);
  foreign.pathname = `/${name}`;
  const admin = openPool(foreign.href, { name: 'admin', connections: 1, onError: () => undefined });
  await admin.pool.query('DROP EXTENSION IF EXISTS pg_trgm');
  // Without the right to create objects, as a guest on a shared server.
  await admin.pool.query(`REVOKE CREATE ON DATABASE ${name} FROM CURRENT_USER`);
  await t.rejects(migrate(foreign.href), {
    message: /may not create the extension pg_trgm.*Run CREATE EXTENSION pg_trgm/,
  });
  await admin.pool.query(`GRANT CREATE ON DATABASE ${name} TO CURRENT_USER`);
  t.match(await migrate(foreign.href, { count: 2 }), [String, '0002_catalog_search']);
  await admin.close();
});
