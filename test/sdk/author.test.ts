/** From nothing to a published plugin, as a new author does it: the packed command line in an empty folder. */
import { randomUUIDv7 } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { stop as stopEsbuild } from 'esbuild';
import t from 'tap';
import { SessionProxy } from '../../conform/runtime/session-proxy.ts';
import { insertChannel } from '../../db/channels/channels.ts';
import { insertDeliveries } from '../../db/channels/deliveries.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { localTools } from '../../pack/local-tools.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { enlargeOffers } from '../api/plugins/copied-versions.ts';
import { generateSshKeys } from '../fixtures/ssh-keys.ts';
import { eventually } from '../runner/eventually.ts';
import { isSoak, soakTest } from '../runner/soak.ts';
import { newAuthor, type Said } from './author.ts';
import { saveFile } from './save-file.ts';
import { shareService } from './shared-service.ts';
import { bulkhead } from './typed.ts';

t.after(() => stopEsbuild());

const { api, url, sessionUrl } = await shareService();
const ann = await api.user('ann');
const { token } = ann;
const author = await newAuthor(t, { BULKHEAD_SESSION_URL: sessionUrl });

const here = { in: 'word-count' };
// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
const answer = ({ stdout, stderr }: Said): any => JSON.parse(stdout || stderr);

/** A command in this process, with the same home and folder: what the packed one starts has been seen by then. */
function typed(args: readonly string[], options: { in?: string; env?: Readonly<Record<string, string>> } = {}) {
  const env = { HOME: join(author.folder, '../home'), BULKHEAD_SESSION_URL: sessionUrl, ...options.env };
  return bulkhead(args, { folder: join(author.folder, options.in ?? '.'), env, localTools });
}

/** Publishes the files of a template without the command line, whose check starts a process. */
async function publishFiles(slug: string, semVer: string): Promise<void> {
  const { items } = (await ann.get('/plugins')).body;
  const known = items.find((one: { slug: string }) => one.slug === slug);
  const { id } = known ?? (await ann.post('/plugins', { slug, displayName: slug })).body;
  const files = ['readme.md', 'index.ts'].map(async (path) => {
    return { path, contentText: await readFile(join(author.folder, slug, path), 'utf8') };
  });
  const { status, body } = await ann.post(`/plugins/${id}/versions`, { semVer, files: await Promise.all(files) });
  if (status !== 201) throw new Error(JSON.stringify(body));
}

t.test('init writes a package that passes the check', async (t) => {
  const made = await author.bulkhead(['init', 'word-count', '--template', 'tool', '--name', 'Word count']);
  t.equal(made.code, 0, made.stderr);
  t.match(made.stdout, /readme\.md, index\.ts, tsconfig\.json, \.gitignore/);
  const checked = await author.bulkhead(['check', '--json'], here);
  t.match(answer(checked), { ok: true, slug: 'word-count', capabilities: ['tools.count'] }, checked.stderr);
  t.same(answer(checked).files, ['index.ts', 'readme.md'], 'the author’s own tools are no part of it');
  t.comment(`check took ${answer(checked).ms} ms`);
});

t.test('login stores the token in a file that only the user can read', async (t) => {
  const refused = await typed(['publish'], { ...here, env: { BULKHEAD_URL: url } });
  t.equal(refused.code, 4);
  t.match(refused.stderr, /not signed in at .*bulkhead login/);
  const result = await typed(['login', `${url}/#token=${token}`]);
  t.equal(result.stdout, `Signed in as ann at ${url}.\n`, result.stderr);
  const { mode } = await stat(join(author.folder, '../home/.config/bulkhead/accounts.json'));
  t.equal(mode & 0o777, 0o600);
  t.match(answer(await typed(['whoami', '--json'])), { name: 'ann', url });
  await api.signIn('ann', 'old laptop');
  t.match(answer(await typed(['tokens', '--json'])), [{ name: 'old laptop', current: false }]);
  t.match((await typed(['tokens', '--rename', 'old laptop', '--to', 'lost'])).stdout, /lost, used never/);
  t.match((await typed(['tokens', '--revoke', 'lost'])).stdout, /“lost” is revoked/);
  t.match((await typed(['tokens', '--revoke', 'lost'])).stderr, /no token with this id or name: lost/);
  for (let times = 0; times < 2; times += 1) await api.signIn('ann', 'twin');
  const several = answer(await typed(['tokens', '--revoke', 'twin', '--json']));
  t.match(several, { error: { code: 'ambiguous', message: /Several tokens have this name; pass an id: twin/ } });
});

t.test('login says what to do where it cannot store the token', async (t) => {
  const file = join(author.folder, 'a-file');
  await writeFile(file, '');
  for (const place of [file, '/proc']) {
    const result = await typed(['login', `${url}/#token=${token}`], { env: { XDG_CONFIG_HOME: place } });
    t.equal(result.code, 1);
    t.match(
      result.stderr,
      `error Tokens cannot be stored in ${place}/bulkhead: set XDG_CONFIG_HOME to a folder that you can write to, or set BULKHEAD_URL and BULKHEAD_TOKEN.\n`,
    );
  }
});

t.test('ssh adds hosts for the agents of the account', async (t) => {
  const { private: key } = generateSshKeys('ed25519');
  await writeFile(join(author.folder, 'agents.key'), key, { mode: 0o600 });
  const said = async (args: readonly string[]) => {
    const { stdout, stderr } = await typed(['ssh', ...args]);
    return stdout + stderr;
  };
  t.match(await said([]), /added no SSH host/);
  const login = ['--user', 'deploy', '--key', 'agents.key'];
  const added = await said(['add', 'web', '--address', 'web.invalid:2222', ...login]);
  t.match(added, /web {2}deploy@web\.invalid:2222, key, no pinned key, not tested\n.*bulkhead ssh pin web/);
  t.match(await said(['test', 'web']), /web\.invalid (has no address|could not be looked up)/);
  const fingerprint = `SHA256:${'A'.repeat(43)}`;
  t.match(await said(['pin', 'web', '--host-key', fingerprint]), new RegExp(`pinned ${fingerprint.slice(0, 10)}`));
  t.match(await said(['change', 'web', '--user', 'root']), /root@web\.invalid:2222/);
  t.match(await said(['change', 'web']), /Nothing to change/);
  t.match(await said(['add', 'x', '--address', '127.0.0.1', ...login]), /not a public address/);
  t.match(
    await said(['add', 'y', '--address', 'y.invalid', '--user', 'u', '--key', 'nowhere']),
    /cannot be read \(ENOENT\)/,
  );
  t.match(await said(['sing', 'web']), /“sing” is not an action/);
  t.match(await typed(['ssh', 'constructor', 'web', '--json']), { code: 2, stdout: /“constructor” is not an action/ });
  t.match(await said(['remove', 'web']), /web is removed/);
});

soakTest(t, 'dev makes each save live and runs it', async (t) => {
  const dev = author.start(['dev'], 'word-count');
  const says = (words: RegExp) =>
    eventually(async () => words.test(dev.readOutput())).catch(() => t.fail(`no ${words} in: ${dev.readOutput()}`));
  await says(/live word-count in \d+ ms/);
  dev.type('tool count {"text":"a b c"}');
  await says(/3 words/);
  const folder = join(author.folder, 'word-count');
  const first = await readFile(join(folder, 'index.ts'), 'utf8');
  await saveFile(folder, 'index.ts', first.replace('} words', '} words!'));
  await says(/live[\s\S]*live word-count in \d+ ms/);
  dev.type('tool count {"text":"a b c d"}');
  await says(/4 words!/);
  await saveFile(folder, 'index.ts', 'hots.log(1);\nsting();\n');
  await says(/\nerror index\.ts:1:1: [^\n]*“host”\?\nerror index\.ts:2:1: [^\n]*“String”\?\n/);
  t.notMatch(dev.readOutput(), 'see errors', 'the form of check');
  dev.type('hook systemprompt');
  await says(/There is no hook “systemprompt”\. Did you mean “systemPrompt”\?/);
  dev.type('command nope');
  await says(/There is no command “word-count__nope”\.\n/);
  dev.type('tool cout {}');
  await says(/No tool has this name\. Did you mean “word-count__count”\?\n/);
  t.equal(await dev.interrupt(), 0, dev.readOutput());
  await saveFile(folder, 'index.ts', first);
  t.comment(
    dev
      .readOutput()
      .match(/live .*/g)
      ?.join('; '),
  );
});

t.test('publish, install and call', async (t) => {
  const dry = answer(await typed(['publish', '--dry-run', '--json'], here));
  t.match(dry, { dryRun: true, semVer: '1.0.0', files: ['index.ts', 'readme.md'] });
  const published = await author.bulkhead(['publish', '--json'], here);
  t.match(answer(published), { slug: 'word-count', visibility: 'private', version: { semVer: '1.0.0' } });
  t.equal(answer(published).version.sourceSha256, dry.sourceSha256, 'what was checked is what was published');
  const installed = await typed(['install', 'word-count', '--yes']);
  // The test of `dev`, which only a soak run has, leaves it installed.
  const outcome = isSoak() ? /word-count now runs 1\.0\.0\./ : /ready to start at its first call/;
  t.match(installed, { code: 0, stdout: outcome }, installed.stderr);
  t.match(answer(await typed(['status', '--json'])).installations, [{ versionPolicy: 'Latest' }], 'no draft');
  const called = await author.bulkhead(['call', 'word-count__count', '{"text":"five words in this sentence"}']);
  t.match(called, { code: 0, stdout: /5 words/ }, called.stderr);
});

soakTest(t, 'a publish whose proposed number another one has taken says so', async (t) => {
  const options = (address: string) => ({ in: 'taken', env: { BULKHEAD_URL: address, BULKHEAD_TOKEN: token } });
  t.equal((await typed(['init', 'taken', '--template', 'tool'])).code, 0);
  const between = createServer(async (request, response) => {
    const body = await buffer(request);
    const isUpload = request.method === 'POST' && request.url?.endsWith('/versions');
    if (isUpload) t.equal((await typed(['publish', '--version', '1.0.0'], options(url))).code, 0);
    const { method = 'GET', headers } = request;
    const kept = { authorization: headers.authorization ?? '', 'content-type': headers['content-type'] ?? '' };
    const sent = { method, headers: kept, ...(body.byteLength > 0 ? { body: new Uint8Array(body) } : {}) };
    const answered = await fetch(`${url}${request.url}`, sent);
    response.writeHead(answered.status, { 'content-type': answered.headers.get('content-type') ?? '' });
    response.end(await answered.text());
  });
  t.teardown(() => between.close());
  await once(between.listen(0, '127.0.0.1'), 'listening');
  const { port } = between.address() as AddressInfo;
  const taken = await typed(['publish'], options(`http://127.0.0.1:${port}`));
  t.match(taken, {
    code: 1,
    stderr: 'error Another publish has taken this number meanwhile. Run `bulkhead publish` again for the next one.\n',
  });
  const chosen = await typed(['publish', '--version', '1.0.0'], options(url));
  t.match(chosen.stderr, /Omit `--version` to use the next free number/);
  t.match(await typed(['publish', '--version', '1.0.0', '--dry-run'], options(url)), {
    code: 1,
    stdout: '',
    stderr:
      'error Version 1.0.0 of taken exists already, and a version never changes. Omit `--version` to use the next free number.\n',
  });
});

soakTest(
  t,
  'publish --list says what was published when the listing fails, and lists it when it is repeated',
  async (t) => {
    const proxy = await SessionProxy.start(url);
    t.teardown(() => proxy.close());
    const through = (address: string) => ({
      in: 'listed-later',
      env: { BULKHEAD_URL: address, BULKHEAD_TOKEN: token },
    });
    const [refusing, options] = [through(proxy.url), through(url)];
    t.equal((await typed(['init', 'listed-later', '--template', 'tool'])).code, 0);
    proxy.break('refuse', /^POST .*\/listing$/, Number.POSITIVE_INFINITY);
    const failed = await typed(['publish', '--list'], refusing);
    t.match(failed, { code: 5, stdout: /\npublished listed-later 1\.0\.0\n$/ });
    t.match(
      failed.stderr,
      /^error 1\.0\.0 is published, but not listed: .* To list it, run `bulkhead list listed-later`\.\n$/,
    );
    const asJson = await typed(['publish', '--list', '--version', '1.0.1', '--json'], refusing);
    t.match(answer(asJson), { error: { code: 'unavailable' }, visibility: 'private', version: { semVer: '1.0.1' } });
    const planned = await typed(['publish', '--list', '--dry-run'], options);
    const nothing = 'Nothing changed since 1.0.1, so it is not published again.';
    t.match(planned, { code: 0, stdout: `${nothing}\nlisted-later would be put into the catalog.\n` });
    const repeated = await typed(['publish', '--list'], options);
    t.match(repeated, {
      code: 0,
      stdout:
        /since 1\.0\.1, so it is not published again\.\nAll users can install it with: bulkhead install listed-later\n$/,
    });
    t.match(await typed(['publish', '--list'], options), {
      code: 1,
      stderr: /Nothing changed since 1\.0\.1\. To publish/,
    });
  },
);

t.test('deliveries: why one waits, try it now, give it up, replay it', async (t) => {
  const { id: installationId, accountId } = (
    await api.pool.query(
      `SELECT i.id, i.account_id AS "accountId" FROM installations i JOIN plugins p ON p.id = i.plugin_id WHERE p.slug = 'word-count'`,
    )
  ).rows[0];
  const channel = await inTransaction(api.pool, (tx) =>
    insertChannel(tx, { installationId, accountId, name: 'inbox' }),
  );
  const id = randomUUIDv7();
  await insertDeliveries(api.pool, [
    {
      id,
      channelId: channel.id,
      installationId,
      accountId,
      routingId: channel.routingId,
      receivedAt: Date.now(),
      method: 'POST',
      query: '',
      headers: [],
      body: Buffer.from('x'),
    },
  ]);
  const listed = () => typed(['deliveries', 'word-count', '--state', 'pending']);
  await eventually(async () => /waits until.*has no channel\.receive/.test((await listed()).stdout));
  t.match(await typed(['try-now', id]), { code: 1, stderr: /It waits until the installation can run/ });
  t.match(await typed(['replay', id]), { code: 1, stderr: /Only finished deliveries are replayed/ });
  await api.pool.query('UPDATE deliveries SET attempts = 1 WHERE id = $1', [id]);
  t.match((await listed()).stdout, /pending {2}1 attempt\n/);
  t.match(await typed(['give-up', id]), { code: 0, stdout: `given up ${id} for word-count\n` });
  t.match(await listed(), { code: 0, stdout: 'none\n' });
  t.match(await typed(['replay', id, '--slug', 'word-count']), { code: 0, stdout: `queued ${id} for word-count\n` });
  t.match(await typed(['give-up', 'nothing']), { code: 1, stderr: /No installed plugin has a delivery nothing/ });
  t.match(await typed(['status']), { stdout: /word-count {2}1\.0\.0 {2}Latest {2}ready/ });
  t.match(await typed(['pause', 'word-count']), {
    code: 0,
    stdout: /^word-count is paused\. Its webhook requests and events wait: bulkhead resume word-count$/m,
  });
  t.match(await typed(['status']), {
    stdout: /paused: It was paused by hand\.\n {4}Resume it\. bulkhead resume word-count/,
  });
  const refusal =
    /“word-count” cannot run “word-count__count” now\. Its state is paused: It was paused by hand\. Resume it\. bulkhead resume word-count/;
  // The supervisor is notified of the pause, which may take a moment.
  await eventually(async () => {
    const { code, stderr } = await typed(['call', 'word-count__count']);
    return code === 1 && refusal.test(stderr);
  });
  t.match(await typed(['restart', 'word-count']), { code: 1, stderr: /not running: paused/ });
  t.match(await typed(['resume', 'word-count']), { code: 0, stdout: 'word-count: ready\n' });
  t.match(await typed(['restart', 'word-count']), { code: 0, stdout: /The next call starts it again/ });
});

t.test('usage shows what the account keeps', async (t) => {
  const kinds: { kind: string; usedBytes: number }[] = answer(await typed(['usage', '--json']));
  t.ok((kinds.find(({ kind }) => kind === 'versions')?.usedBytes ?? 0) > 1_000);
  t.match(await typed(['usage']), { code: 0, stdout: /^versions {5}█?░+ [\d.]+ KiB, no limit$/m });
  t.match(await typed(['usage', '--help']), { code: 0, stdout: /how to make room/ });
});

soakTest(t, 'a call says why a plugin does not load with its grants, and what to do', async (t) => {
  await typed(['init', 'choosy', '--template', 'tool']);
  const source = join(author.folder, 'choosy/index.ts');
  const code = await readFile(source, 'utf8');
  await writeFile(source, `${code}\nif (host.storage) throw new Error('no disk');\n`);
  const readme = join(author.folder, 'choosy/readme.md');
  await writeFile(readme, (await readFile(readme, 'utf8')).replace('---\n', '---\ncapabilities: [host.storage]\n'));
  const published = await typed(['publish', 'choosy']);
  t.match(published, { code: 0, stdout: /List it in the catalog with: bulkhead list choosy\n/ }, published.stderr);
  t.match(await typed(['install', 'choosy', '--yes']), { code: 0, stdout: /ready to start at its first call/ });
  const call = () => typed(['call', 'choosy__count', '{"text":"a"}']);
  const state =
    /^error “choosy” cannot run “choosy__count” now\. Its state is restarting: Its process ended: no disk\. After a pause [^\n]* starts it again\.\n$/;
  // The state of the process is stored shortly after the call has failed.
  await eventually(async () => state.test((await call()).stderr));
  t.match(await typed(['call', 'word-count__cuont']), {
    code: 1,
    stderr: /“word-count__cuont”\. Did you mean “word-count__count”\?\n$/,
  });
  t.equal((await typed(['uninstall', 'choosy', '--yes'])).code, 0);
});

t.test('accept, retry and install end with 1 if the new code does not start', async (t) => {
  await typed(['init', 'brittle', '--template', 'tool']);
  await publishFiles('brittle', '1.0.0');
  t.equal((await typed(['install', 'brittle', '--yes'])).code, 0);
  const source = join(author.folder, 'brittle/index.ts');
  const code = `${await readFile(source, 'utf8')}\nif (host.storage) throw new Error('no disk');\n`;
  await writeFile(source, code);
  const readme = join(author.folder, 'brittle/readme.md');
  const manifest = (await readFile(readme, 'utf8')).replace('---\n', '---\ncapabilities: [host.storage]\n');
  await writeFile(readme, manifest);
  await publishFiles('brittle', '1.1.0');
  const fault = (next: string) =>
    `brittle still runs 1.0.0, because ${next} did not start: no disk. Run \`bulkhead retry brittle\` to try again, or wait for the next version.`;
  t.match(await typed(['accept', 'brittle', '--yes']), { code: 1, stderr: `error ${fault('1.1.0')}\n` });
  const retried = await typed(['retry', 'brittle', '--json']);
  t.equal(retried.code, 1);
  t.match(answer(retried), {
    error: { code: 'update_failed', message: fault('1.1.0') },
    currentSemVer: '1.0.0',
    failedUpdate: { semVer: '1.1.0', reason: 'no disk' },
  });
  if (isSoak()) {
    const [{ id }] = (await ann.get('/plugins')).body.items.filter((one: { slug: string }) => one.slug === 'brittle');
    const files = [
      { path: 'readme.md', contentText: manifest },
      { path: 'index.ts', contentText: code },
    ];
    t.equal((await ann.post(`/plugins/${id}/draft`, { files })).status, 200);
    t.match(await typed(['install', 'brittle', '--draft']), { code: 1, stderr: `error ${fault('the draft')}\n` });
  }
  t.equal((await typed(['uninstall', 'brittle', '--yes'])).code, 0);
});

soakTest(t, 'install --pin and --latest move an installed plugin', async (t) => {
  await typed(['init', 'mover', '--template', 'tool']);
  await publishFiles('mover', '1.0.0');
  t.equal((await typed(['install', 'mover', '--yes'])).code, 0);
  const source = join(author.folder, 'mover/index.ts');
  await writeFile(source, `${await readFile(source, 'utf8')}\nmiddleware.inboundMessage = () => {};\n`);
  await publishFiles('mover', '1.1.0');
  t.match(await typed(['install', 'mover', '--pin', '1.0.0', '--latest']), {
    code: 2,
    stderr: /Pass one of `--pin`, `--latest` and `--draft`\./,
  });
  t.match(await typed(['install', 'mover', '--yes']), {
    code: 1,
    stderr:
      /already installed “mover”\. .* `--pin <semver>` and `--latest` move it to another version; `bulkhead configure` changes its settings and whether it is required\.\n$/,
  });
  t.match(await typed(['install', 'mover', '--pin', '1.0.0', '--yes']), {
    code: 0,
    stdout: /^mover now runs 1\.0\.0\.$/m,
  });
  const move = async (...options: string[]) => answer(await typed(['install', 'mover', ...options, '--yes', '--json']));
  t.match(await move('--latest'), { versionPolicy: 'Latest', currentSemVer: '1.1.0' }, 'accepts what it has shown');
  t.match(await move('--pin', '1.0.0'), { versionPolicy: 'Pinned', currentSemVer: '1.0.0', pendingUpdate: null });
  t.match(await move('--latest', '--required'), { versionPolicy: 'Latest', currentSemVer: '1.1.0', required: true });
  t.match(
    await typed(['install', 'mover', '--pin', '1.0.0', '--yes']),
    { code: 0, stdout: /mover still runs 1\.1\.0: 1\.0\.0 needs your consent: bulkhead accept mover\n/ },
    'dropping a hook of a required plugin was not shown',
  );
  t.match(
    await typed(['configure', 'mover', '--no-required']),
    {
      code: 0,
      stdout:
        /^mover: ready\nYou no longer require mover: while it does not run, fails or times out, messages and turns continue without its checks\.\nmover now runs 1\.0\.0\.\nWith 1\.0\.0, these checks of it end:\n {2}\S.*\n$/,
    },
    'the update that waited begins',
  );
  t.match(await move('--latest', '--required'), { currentSemVer: '1.1.0', required: true });
  t.match(await typed(['uninstall', 'mover']), {
    code: 2,
    stdout: '\n  its checks, which you require: messages and turns continue without them\n',
  });
  t.match(await typed(['pause', 'mover']), { stdout: /messages and turns now continue without its checks/ });
  t.match(await typed(['resume', 'mover']), { code: 0, stdout: 'mover: ready\n' });
  const masked = (await readFile(source, 'utf8')).replace('middleware.inboundMessage', 'events.sessionStarted');
  await writeFile(source, masked);
  t.equal((await typed(['publish', 'mover'])).code, 0);
  t.match(
    await move('--latest'),
    { currentSemVer: '1.1.0', pendingUpdate: { added: ['events.sessionStarted'] } },
    'also if the version asks for more access',
  );
  t.match(await typed(['accept', 'mover', '--yes']), {
    code: 0,
    stdout:
      /asks for more access:\n {2}Receives an event when .*\nYou require mover, but with 2\.0\.0, messages and turns continue without these checks of it:\n {2}\S.*\n/,
  });
  t.equal((await typed(['uninstall', 'mover', '--yes'])).code, 0);
});

t.test('list, delist, yank and status', async (t) => {
  t.match(await typed(['list', 'WORDCOUNT']), {
    code: 1,
    stderr: /^error You have no plugin “WORDCOUNT” at \S+ Did you mean “word-count”\? Otherwise, publish it first\.\n$/,
  });
  t.match(await typed(['list'], here), { code: 0, stdout: /word-count is in the catalog/ });
  const last = await typed(['yank', '1.0.0'], here);
  t.match(last, { code: 1, stderr: /last version/ });
  const linked = join(author.folder, 'word-count/linked.txt');
  await symlink('index.ts', linked);
  const next = await typed(['publish', '--zip', '--version', '1.0.1-rc.1', '--json'], here);
  await rm(linked);
  t.match(answer(next).warnings, ['linked.txt is left out: it is a symbolic link. Replace it with a copy.']);
  t.match(answer(next).version, { semVer: '1.0.1-rc.1', status: 'published' }, 'a zip of the same files');
  if (isSoak()) {
    const shown = await typed(['publish', '--version', '1.0.1-rc.3'], here);
    t.match(shown, {
      code: 0,
      stdout:
        /\nUsers keep getting 1\.0\.0, unless they pin 1\.0\.1-rc\.3\.\nAll users can install it with: bulkhead install word-count --pin 1\.0\.1-rc\.3\n/,
    });
    t.match(await typed(['yank', '1.0.1-rc.3'], here), { code: 0, stdout: /is yanked/ });
  }
  t.match(await typed(['yank', '1.0.1-rc.1'], here), { code: 0, stdout: /is yanked/ });
  if (isSoak()) {
    const assets = join(author.folder, 'word-count/assets');
    await mkdir(assets);
    await writeFile(join(assets, 'zeros.bin'), Buffer.alloc(3_000_000));
    for (let index = 0; index < 5; index += 1)
      await writeFile(join(assets, `small-${index}.bin`), Buffer.alloc(500_000, index));
    const large = await typed(['publish', '--version', '1.0.1-rc.2', '--json'], here);
    t.match(answer(large).version, { status: 'published' }, 'files that compress like a zip bomb are stored');
    t.match(await typed(['yank', '1.0.1-rc.2'], here), { code: 0, stdout: /is yanked/ });
    await rm(assets, { recursive: true });
  }
  const gone = await typed(['delist', '--message', 'Count yourself', '--json'], here);
  t.match(answer(gone), { visibility: 'delisted', deprecationMessage: 'Count yourself' });
  if (isSoak()) {
    const hidden = await typed(['publish', '--version', '1.0.1-rc.4'], here);
    const reach = '\nUsers who have the plugin installed keep getting its new versions; others cannot find it.';
    t.match(hidden.stdout, reach);
    t.notMatch(hidden.stdout, 'Only you can see it');
    t.match(await typed(['yank', '1.0.1-rc.4'], here), { code: 0, stdout: /is yanked/ });
  }
  const status = answer(await typed(['status', '--json']));
  t.match(status, { plugins: [{ slug: 'word-count' }], installations: [{ currentSemVer: '1.0.0' }] });
  t.match(await typed(['status']), {
    stdout: /word-count {2}1\.0\.0 {2}Latest .*\n {4}No longer in the catalog: Count yourself$/m,
  });
  await api.pool.query("UPDATE plugins SET blocked_reason = 'It is\nlooked at' WHERE slug = 'word-count'");
  t.match(await typed(['status']), {
    stdout: /word-count {2}1\.0\.0 {2}delisted\n {4}Blocked by the operator: It is looked at$/m,
  });
  await api.pool.query("UPDATE plugins SET blocked_reason = NULL WHERE slug = 'word-count'");
});

soakTest(t, 'a version that does not fit into the answer of the service is yanked', async (t) => {
  const large = { in: 'large' };
  await typed(['init', 'large', '--template', 'tool']);
  for (const semVer of ['1.0.0', '1.1.0']) await publishFiles('large', semVer);
  const { plugins } = answer(await typed(['status', '--json']));
  await enlargeOffers(api.pool, plugins.find(({ slug }: { slug: string }) => slug === 'large').id, MIB);
  t.match(await typed(['yank', '1.0.0'], large), { code: 0, stdout: /is yanked/ });
  const again = answer(await typed(['publish', '--version', '1.0.0', '--dry-run', '--json'], large));
  t.match(again, { error: { code: 'version_exists' } }, 'also if the answer leaves it out');
  t.match(await typed(['yank', '1.2.0'], large), { code: 1, stderr: /Its versions are 1\.1\.0, 1\.0\.0\.\n$/ });
});

t.test('configure names what is missing and requires a plugin, accept shows the requested capabilities', async (t) => {
  const channel = { in: 'inbox' };
  const made = await typed(['init', 'inbox', '--template', 'channel']);
  t.match(made.stdout, /\nWhen it is installed: bulkhead channels inbox connect <name>, which prints the address/);
  const first = await typed(['publish'], channel);
  t.match(
    first,
    { code: 0, stdout: /^published inbox 1\.0\.0\nOnly you can see it/m },
    'no user has an update to accept',
  );
  const installed = await typed(['install', 'inbox', '--required', '--yes']);
  t.match(installed.stdout, /needs configuration[\s\S]*apiToken/);
  const env = { BULKHEAD_SECRET_apiToken: 't' };
  const set = await typed(['configure', 'inbox', '--secret', 'webhookSecret=s', '--secret', 'apiToken'], {
    env,
  });
  t.match(set, { code: 0, stdout: /\ninbox: required, ready\n$/ }, set.stderr);
  for (const name of ['webhookSecret', 'apiToken'])
    t.match(set.stdout, new RegExp(`^What inbox does with what you enter:\n[^]*secret “${name}”`), 'the use is shown');
  const masked = await typed(['configure', 'inbox', '--secret', 'webhookSecret=s3cret', '--secret', 'apiToken'], {
    env,
  });
  const short = /warning The value of apiToken is shorter than 6 characters, so it is not masked in what/;
  t.match(masked, { code: 0, stdout: short }, masked.stderr);
  t.notMatch(masked.stdout, 'The value of webhookSecret');
  const empty =
    'error The value of the secret apiToken is empty. Pass a value. To remove the secret, pass `--forget apiToken`.\n';
  for (const [given, variable] of [
    ['apiToken=', 't'],
    ['apiToken', ''],
  ] as const)
    t.match(await typed(['configure', 'inbox', '--secret', given], { env: { BULKHEAD_SECRET_apiToken: variable } }), {
      code: 2,
      stderr: empty,
    });
  for (const [options, message] of [
    ['--set a=1 --unset a', 'a is given more than once. Pass each name in one `--set` or `--unset`.'],
    ['--set a=1 --set a=2', 'a is given more than once.'],
    ['--secret b --forget b', 'b is given more than once. Pass each name in one `--secret` or `--forget`.'],
  ] as const)
    t.match(await typed(['configure', 'inbox', ...options.split(' ')]), { code: 2, stderr: `error ${message}` });
  const released = await typed(['configure', 'inbox', '--no-required']);
  t.match(released, { code: 0, stdout: 'inbox: ready\n' }, 'without a hook, it checks nothing');
  const note = 'inbox is required now. To undo that, run';
  const refused = ['configure', 'inbox', '--required', '--set', 'nope=1'];
  const half = await typed(refused);
  t.match(half, { code: 1, stderr: /--no-required`\.\nerror settings\.nope: is not known/ });
  t.match(half.stderr, note, 'the first of two changes was made');
  t.notMatch((await typed(refused)).stderr, note, 'it was required before');
  t.match(await typed(['configure', 'inbox', '--no-required']), { code: 0 });
  t.match(await typed(['configure', 'inbox', '--required']), { code: 0, stdout: 'inbox: required, ready\n' });
  t.match(await typed(['pause', 'inbox']), { code: 0, stdout: /^inbox is paused\. Its webhook requests/ });
  t.match(await typed(['resume', 'inbox']), { code: 0, stdout: 'inbox: ready\n' });
  t.match(await typed(['configure', 'inbox']), { code: 2, stderr: /Nothing to change\. Pass .*--no-required/ });
  t.match(await typed(['accept', 'inbox']), { code: 1, stderr: /“inbox” has no update/ });
});

t.test('accept shows an update that requests more access, and accepts it', async (t) => {
  const source = join(author.folder, 'word-count/index.ts');
  await writeFile(source, `${await readFile(source, 'utf8')}\nevents.sessionStarted = () => {};\n`);
  const readme = join(author.folder, 'word-count/readme.md');
  const head =
    '---\ncapabilities: ["host.models", "host.ssh"]\nsecrets: { key: { required: true } }\nsettings: { town: { required: true } }\n';
  await writeFile(readme, (await readFile(readme, 'utf8')).replace('---\n', head));
  const next = await typed(['publish'], here);
  t.match(
    next.stdout,
    'published word-count 1.1.0\n' +
      'Users must accept the update first, because it asks for more access:\n' +
      '  Receives an event when a session of your agents starts.\n' +
      '  Lists the models your agents can use.\n' +
      '  Runs commands on your SSH hosts. (high risk)\n' +
      'Users get it only when they have accepted it and set town, key.\n',
  );
  t.match(next.stdout, /requests .*secrets\.key.*, settings\.town\n/);
  const early = ['configure', 'word-count', '--set', 'town=Riga'];
  await eventually(async () => (await typed(['status'])).stdout.includes('bulkhead accept word-count'));
  t.match(await typed(early), {
    code: 1,
    stderr: /settings\.town: is not known.* town: needed by 1\.1\.0\. Accept that first: bulkhead accept word-count\n/,
  });
  const accepted = await typed(['accept', 'word-count', '--yes']);
  t.equal(
    accepted.stdout,
    'word-count 1.1.0 asks for more access:\n' +
      '  Receives an event when a session of your agents starts.\n' +
      '  Lists the models your agents can use.\n' +
      '  Runs commands on your SSH hosts. (high risk)\n' +
      'word-count 1.1.0 needs town, key, which you have not set.\n' +
      '  Reads the value of the secret “key”.\n' +
      'Changes that the console shows line by line:\n' +
      '  index.ts: changed\n' +
      '  readme.md: changed\n' +
      'word-count runs 1.0.0 until 1.1.0 has started. Set town, key, so that 1.1.0 can start.\n',
    accepted.stderr,
  );
  const configured = await typed(['configure', 'word-count', '--set', 'town=Riga', '--secret', 'key=k']);
  t.match(configured, { code: 0, stdout: /\nword-count: ready/ });
  await eventually(async () => / 1\.1\.0 /.test((await typed(['status'])).stdout));
});

t.test('channels are connected, listed, moved to another address and disconnected', async (t) => {
  t.match(await typed(['channels', 'inbox']), { code: 0, stdout: /^none\. To connect one: bulkhead channels inbox/ });
  const connected = answer(await typed(['channels', 'inbox', 'connect', 'Desk', '--json']));
  t.match(connected, { name: 'Desk', webhookUrl: /\/webhook\/plugin\// });
  const again = await typed(['channels', 'inbox', 'connect', 'Desk', '--agent', 'a1']);
  t.match(again, { code: 0, stdout: /^connected Desk\nGive this address to the vendor: http.*\/webhook\/plugin\// });
  const { rows } = await api.pool.query('SELECT agent_id FROM channels WHERE name = $1 ORDER BY id', ['Desk']);
  t.same(
    rows.map(({ agent_id }) => agent_id),
    [null, 'a1'],
  );
  const listed = await typed(['channels', 'inbox']);
  t.match(listed.stdout, `${connected.id}  Desk  ${connected.webhookUrl}\n`);
  t.match(listed.stdout, /\/webhook\/plugin\/\S+ {2}agent a1\n/);
  const several = await typed(['channels', 'inbox', 'disconnect', 'Desk', '--json']);
  t.match(several.code, 1);
  t.match(answer(several), { error: { code: 'ambiguous', message: /several channels of this name/ } });
  for (const action of ['disconnect', 'replace-address']) {
    const refused = await typed(['channels', 'inbox', action, connected.id, '--agent', 'a1', '--yes']);
    t.match(refused, { code: 2, stderr: /`--agent` chooses the agent/ });
  }
  t.match(await typed(['channels', 'inbox', '--agent', 'a1']), { code: 2, stderr: /`--agent` chooses the agent/ });
  t.match(await typed(['channels', 'inbox', 'list', 'Desk']), { code: 2, stderr: /`list` takes no channel/ });
  t.match(await typed(['channels', 'inbox', 'remove', 'Desk']), { code: 2, stderr: /“remove” is not an action/ });
  t.match(await typed(['channels', 'inbox', 'connect']), { code: 2, stderr: /Name the channel/ });
  const replace = ['channels', 'inbox', 'replace-address', connected.id];
  t.match(await typed(replace), { code: 2, stderr: /The address was not replaced\./ });
  const replaced = answer(await typed([...replace, '--yes', '--json']));
  t.equal(replaced.id, connected.id);
  t.not(replaced.webhookUrl, connected.webhookUrl);
  const disconnect = ['channels', 'inbox', 'disconnect', connected.id];
  t.match(await typed(disconnect), {
    code: 2,
    stdout: /with all its sessions.*\n.*become dead letters/,
    stderr: /The channel was not disconnected\./,
  });
  t.match(await typed([...disconnect, '--yes']), { code: 0, stdout: /disconnected Desk\n$/ });
  t.equal(answer(await typed(['channels', 'inbox', '--json'])).length, 1);
});

t.test('deliveries are counted, shown with headers and body, and replayed together', async (t) => {
  const insert = `INSERT INTO deliveries (id, channel_id, installation_id, account_id, routing_id, received_at, method, query, headers,
      body, state, finished_at, attempts, last_error)
    SELECT 'dead ' || n, c.id, c.installation_id, c.account_id, c.routing_id, now(), 'POST', 'a=1', '[["X-A", "b\\nc"]]', convert_to('hello ' || n, 'UTF8'), 'dead',
           now(), 6, 'it failed' FROM channels c, generate_series(1, 3) n WHERE c.name = 'Desk'`;
  await api.pool.query(insert);
  const listed = await typed(['deliveries', 'inbox', '--limit', '2']);
  t.match(listed, { code: 0, stdout: /^dead 3 .*dead {2}6 attempts\n {4}it failed\ndead 2 / });
  t.match(listed.stderr, 'These are the newest 2. For older ones, pass a higher `--limit`.');
  t.equal(answer(await typed(['deliveries', 'inbox', '--limit', '2', '--json'])).length, 2);
  t.equal((await typed(['deliveries', 'inbox', '--limit', '3'])).stderr, '');
  const shown = await typed(['delivery', 'dead 1']);
  t.match(shown, { code: 0, stdout: /^dead 1 .*\n {4}it failed\n\nPOST \?a=1\nX-A: b c\n\n7 bytes:\nhello 1\n$/ });
  const { rows } = await api.pool.query(`SELECT DISTINCT installation_id AS id FROM channels WHERE name = 'Desk'`);
  for (const owner of ['inbox', rows[0].id]) {
    const found = await typed(['delivery', 'dead 1', '--slug', owner]);
    t.match(found, { code: 0, stdout: shown.stdout });
    const missing = await typed(['delivery', 'nothing', '--slug', owner]);
    t.match(missing, { code: 1, stderr: /does not have a delivery nothing/ });
  }
  t.match(await typed(['delivery', 'dead 1', '--slug', 'other']), {
    code: 1,
    stderr: /“other” is not installed at \S+ Run/,
  });
  t.match(await typed(['delivery', 'dead 1', '--slug', 'inbx']), {
    code: 1,
    stderr: /“inbx” is not installed at \S+ Did you mean “inbox”\? Otherwise, run `bulkhead install inbx`\.\n$/,
  });
  t.match(await typed(['delivery', 'nothing']), { code: 1, stderr: /No installed plugin has a delivery nothing/ });
  t.match(await typed(['replay']), { code: 2, stderr: /Pass either the id of a delivery, or --dead and --slug/ });
  t.match(await typed(['replay', '--dead']), { code: 2, stderr: /bulkhead replay --dead --slug <slug>/ });
  const replayed = await typed(['replay', '--dead', '--slug', 'inbox']);
  t.match(replayed, { code: 0, stdout: 'queued 3 dead deliveries of inbox\n' });
});

t.test('uninstall shows what it deletes, and deletes it', async (t) => {
  const shown =
    'inbox is notified first. Then these are removed permanently:\n' +
    '  its agents (it has none), with all their sessions\n' +
    '  its channels: Desk, with all their sessions, also those that another agent answers. Their addresses stop working\n' +
    '  its webhook requests and replies that wait: they become dead letters and cannot be replayed\n' +
    '  its live connections and its stored data\n' +
    '  its secrets: apiToken, webhookSecret\n';
  const asked = await typed(['uninstall', 'inbox']);
  t.match(asked, { code: 2, stdout: shown, stderr: /Nothing was uninstalled\. There is no terminal/ });
  const installation = async () =>
    answer(await typed(['status', '--json'])).installations.find((one: { slug: string }) => one.slug === 'inbox');
  t.match(await installation(), { status: 'ready' });
  const removed = await typed(['uninstall', 'inbox', '--yes']);
  t.equal(removed.stdout, `${shown}uninstalled inbox\n`, removed.stderr);
  await eventually(async () => (await installation()) === undefined);
  t.match(await typed(['uninstall', 'inbox', '--yes']), { code: 1, stderr: /“inbox” is not installed/ });
});
