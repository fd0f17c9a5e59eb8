/** The SSH hosts that an account adds itself, against a real OpenSSH server. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import ssh2 from 'ssh2';
import t, { type Test } from 'tap';
import { readSshLogin } from '../../../db/accounts/ssh-hosts.ts';
import { rotateKey } from '../../../db/files/key-rotation.ts';
import { readStorageValue } from '../../../db/installations/plugin-storage.ts';
import { AccountHosts } from '../../../supervisor/host/ssh/account-hosts.ts';
import { listenOn } from '../../fixtures/listening-server.ts';
import { generateSshKeys } from '../../fixtures/ssh-keys.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { storeKey, waitForKey } from '../held-handlers.ts';
import { startDns } from '../host/dns-server.ts';
import { noSshd, startSshd } from '../host/sshd.ts';
import { type Reply, startSupervisorFixture } from '../supervisor-fixture.ts';

const PASSWORD = 'correct horse battery';
const user = userInfo().username;

/** A server of the library's, because OpenSSH would want a password of this machine. It says what it was sent. */
async function startPasswordServer(test: Test) {
  const { private: privateKey, public: publicKey } = generateSshKeys('ed25519');
  const given: string[] = [];
  const server = new ssh2.Server({ hostKeys: [privateKey] }, (client) => {
    client.on('error', () => undefined);
    client.on('authentication', (attempt) => {
      if (attempt.method !== 'password') return attempt.reject(['password']);
      given.push(attempt.password);
      return attempt.password === PASSWORD ? attempt.accept() : attempt.reject();
    });
    client.on('session', (accept) => {
      accept().on('exec', (acceptCommand) => {
        const channel = acceptCommand();
        channel.write(`you sent ${given.at(-1)}\n`);
        channel.exit(0);
        channel.end();
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const blob = Buffer.from(publicKey.split(' ')[1] ?? '', 'base64');
  const fingerprint = `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
  return { port: (server.address() as AddressInfo).port, fingerprint, given };
}

const A_MINUTE_MS = 60_000;
const BOMB_ROUNDS = 4_294_967_295;
/** A key of OpenSSH whose decryption takes years. */
function writeBomb(): string {
  const { private: text } = generateSshKeys('ed25519', {
    passphrase: 'x',
    cipher: 'aes256-ctr',
    rounds: 1,
  });
  const [head = '', ...lines] = text.trim().split('\n');
  const end = lines.pop() ?? '';
  const blob = Buffer.from(lines.join(''), 'base64');
  const rounds = Buffer.from([0, 0, 0, 1]);
  blob.writeUInt32BE(BOMB_ROUNDS, blob.indexOf(rounds, blob.indexOf('bcrypt') + 'bcrypt'.length + 8));
  return [head, blob.toString('base64'), end].join('\n');
}

const allowPrivate = new Set(['127.0.0.1:1']);
const shared = await startSupervisorFixture(t, { ssh: { allowPrivate } });

t.test('a private key whose decryption takes years delays no other key', async (t) => {
  const { privateKeys } = new AccountHosts({} as never, {} as never);
  t.teardown(() => privateKeys.close());
  const bomb = { text: writeBomb(), passphrase: 'x' };
  await t.rejects(privateKeys.run('ann', bomb, 50), { name: 'TimeLimitError' });
  for (const type of ['ed25519', 'ecdsa', 'rsa'] as const) {
    const options = { bits: type === 'rsa' ? 2048 : 256, passphrase: 'x', cipher: 'aes256-cbc', rounds: 1 } as const;
    const { private: text, public: publicKey } = generateSshKeys(type, options);
    const open = (passphrase: string) => privateKeys.run('ann', { text, passphrase }, A_MINUTE_MS);
    t.equal(await open('y'), null, 'a wrong passphrase');
    const opened = ssh2.utils.parseKey((await open('x')) ?? '');
    if (opened instanceof Error) throw opened;
    t.equal(opened.getPublicSSH().toString('base64'), publicKey.split(' ')[1], `${type}: the same key`);
    t.ok(opened.verify('text', opened.sign('text')), 'that signs');
  }
});

/** Says what a client offers, and answers nothing. */
async function startSilentServer(test: Test) {
  const { promise: offered, resolve } = Promise.withResolvers<string>();
  const server = createServer((socket) => {
    let bytes = '';
    socket.on('error', () => undefined);
    socket.write('SSH-2.0-silent\r\n');
    socket.on('data', (part) => {
      bytes += part.toString('latin1');
      // The first packet follows the line of the version. It ends with the languages, which are empty, and padding.
      if (!bytes.includes('none')) return;
      resolve(bytes);
      socket.destroy();
    });
  });
  const { port } = await listenOn(test, server);
  return { port, offered };
}

t.test('a host gets no offer with which it could hold the service up', async (t) => {
  const { port, offered } = await startSilentServer(t);
  allowPrivate.add(`127.0.0.1:${port}`);
  const fixture = shared.withNewAccount();
  const host = { id: 'evil', name: 'Evil', address: '127.0.0.1', port, user, password: PASSWORD };
  t.match(await fixture.call('POST', '/ssh-hosts', host), { status: 201 });
  t.match((await fixture.call('POST', '/ssh-hosts/evil/test')).body, { ok: false, hostKey: null });
  const offer = await offered;
  t.match(offer, /curve25519-sha256/);
  t.notMatch(offer, /group-exchange/, 'no group of the host’s own, whose check takes minutes');
  t.notMatch(offer, /group1[5-8]/, 'no large group');
  t.notMatch(offer, /zlib/, 'no compression');
});

t.test('requests at once', async (t) => {
  const fixture = shared.withNewAccount();
  const host = { id: 'twin', name: 'Twin', address: '127.0.0.1', port: 1, user, password: PASSWORD };

  await t.test('of two that add a host with the same id, one learns that the id is taken', async (t) => {
    const answers = await Promise.all([0, 1].map(() => fixture.call('POST', '/ssh-hosts', host)));
    t.same(answers.map(({ status, body }) => body.code ?? status).sort(), [201, 'id_reused']);
  });

  await t.test('changes of one host all apply', async (t) => {
    const changes = [{ name: 'Gemini' }, { hostKeys: [`SHA256:${'A'.repeat(43)}`] }, { password: 'another' }];
    const answers = await Promise.all(changes.map((change) => fixture.call('PATCH', '/ssh-hosts/twin', change)));
    t.same(
      answers.map(({ status }) => status),
      [200, 200, 200],
    );
    t.match((await fixture.call('GET', '/ssh-hosts/twin')).body, { ...changes[0], ...changes[1] });
  });

  await t.test('a new password is not sent to the address that the host had before', async (t) => {
    const { rows } = await fixture.pool.query(`SELECT account_id FROM ssh_hosts WHERE id = 'twin'`);
    const hosts = new AccountHosts(fixture.pool, fixture.keys, { allowPrivate });
    t.teardown(() => hosts.privateKeys.close());
    const [before] = await hosts.list(rows[0].account_id);
    const moved = { address: 'elsewhere.example.com', password: PASSWORD };
    t.equal((await fixture.call('PATCH', '/ssh-hosts/twin', moved)).status, 200);
    const prepare = async () => before?.prepare(new AbortController().signal);
    await t.rejects(prepare(), { message: 'the SSH host was changed or removed meanwhile' });
  });
});

t.test('one request too many is refused with the time to wait, and is no failed test of the host', async (t) => {
  const fixture = shared.withNewAccount();
  const hostKeys = [`SHA256:${'A'.repeat(43)}`];
  const closed = { id: 'closed', name: 'Closed', address: '127.0.0.1', port: 1, user, password: PASSWORD, hostKeys };
  t.equal((await fixture.call('POST', '/ssh-hosts', closed)).status, 201);
  const session = (await fixture.call('POST', '/sessions', { agentId: 'a', hostTools: ['ssh'] })).body.id;
  const run = { host: 'closed', command: 'ls', trigger: 'user' };
  // A slow machine gets some connections back meanwhile.
  const untilLimited = async (request: () => Promise<Reply>): Promise<Reply> => {
    for (let count = 0; count < 100; count += 1) {
      const reply = await request();
      if (reply.status === 429) return reply;
    }
    throw new Error('no request met the limit');
  };
  const limited = (detail: RegExp) => ({
    headers: { 'retry-after': /^\d+$/ },
    body: { code: 'rate_limited', detail },
  });
  const tested = await untilLimited(() => fixture.call('POST', '/ssh-hosts/closed/test'));
  t.match(tested, limited(/^The host was not tested: rate limit exceeded: 30 SSH connections per minute/));
  t.match((await fixture.call('GET', '/ssh-hosts/closed')).body, { testFault: /cannot be reached/ });
  const ran = await untilLimited(() => fixture.call('POST', `/sessions/${session}/ssh`, run));
  t.match(ran, limited(/^The command did not run: rate limit exceeded: 30 SSH connections per minute/));
});

t.test('hosts that an account adds itself', { skip: noSshd }, async (t) => {
  const sshd = await startSshd(t);
  const dns = await startDns(t);
  const withPassword = await startPasswordServer(t);
  const read = (name: string) => readFile(join(sshd.folder, name), 'utf8');
  const privateKey = await read('user');
  const fixture = await startSupervisorFixture(t, {
    ssh: {
      allowPrivate: new Set([`127.0.0.1:${sshd.port}`, `127.0.0.1:${withPassword.port}`, `once.test:${sshd.port}`]),
      dnsServers: [dns.address],
    },
  });
  const session = `/sessions/${(await fixture.call('POST', '/sessions', { agentId: 'a', hostTools: ['ssh'] })).body.id}`;
  const run = (host: string, command = 'echo ran') =>
    fixture.call('POST', `${session}/ssh`, { host, command, trigger: 'user' });
  const host = { name: 'Web server', address: '127.0.0.1', port: sshd.port, user, privateKey };

  await t.test('are added, tested, pinned, used, changed and removed', async (t) => {
    const added = await fixture.call('POST', '/ssh-hosts', { id: 'web', ...host });
    t.match(added, { status: 201, headers: { location: '/ssh-hosts/web' }, body: { login: 'key', hostKeys: [] } });
    t.match((await run('web')).body.detail, /Web server has no pinned host key, so nothing was sent/);
    t.equal(sshd.total(), 0, 'without a pinned key nobody connects');
    const shown = (await fixture.call('POST', '/ssh-hosts/web/test')).body;
    t.match(shown, { ok: false, hostKey: sshd.fingerprint, fault: /no pinned host key/ });
    t.match(await fixture.call('PATCH', '/ssh-hosts/web', { hostKeys: [shown.hostKey] }), { status: 200 });
    t.same((await fixture.call('POST', '/ssh-hosts/web/test')).body, {
      ok: true,
      hostKey: sshd.fingerprint,
      fault: null,
    });
    t.match((await run('web')).body, { exitCode: 0, stdout: 'ran\n', host: { id: 'web', name: 'Web server' } });
    const total = sshd.total();
    await run('web');
    t.equal(sshd.total(), total, 'on the connection of before');
    const other = `SHA256:${'A'.repeat(43)}`;
    await fixture.call('PATCH', '/ssh-hosts/web', { hostKeys: [other] });
    t.match(
      (await run('web')).body.detail,
      /shows another host key than the pinned one, so nothing was sent; it shows/,
    );
    t.match((await fixture.call('GET', '/ssh-hosts/web')).body, { hostKeys: [other], testedAt: null });
    t.match(await fixture.call('DELETE', '/ssh-hosts/web'), { status: 204 });
    t.match(await fixture.call('DELETE', '/ssh-hosts/web'), { status: 404 });
    t.match((await run('web')).body.detail, /no SSH host/);
    const { rows } = await fixture.pool.query('SELECT action, subject, detail FROM account_actions ORDER BY id');
    t.same(
      rows.map(({ action }) => action),
      ['ssh-host.add', 'ssh-host.change', 'ssh-host.change', 'ssh-host.remove'],
    );
    t.match(rows[0], { subject: 'web', detail: `${user}@127.0.0.1:${sshd.port}, 0 pinned keys` });
  });

  await t.test('run nothing if they were changed or removed while plugins judged the command', async (t) => {
    await fixture.call('POST', '/ssh-hosts', { id: 'moved', ...host, hostKeys: [sshd.fingerprint] });
    const guard = await fixture.install({
      slug: 'slow-guard',
      capabilities: ['host.storage'],
      code: `middleware.sshCommand = async ({ command }) => {
        if (!command.startsWith('wait ')) return;
        await host.storage.set('asked ' + command, true);
        ${waitForKey("'go on ' + command")}
      };`,
    });
    const runDuring = async (command: string, change: () => Promise<Reply>): Promise<Reply> => {
      t.match((await run('moved')).body, { exitCode: 0 }, 'leaves an idle connection');
      const answer = run('moved', command);
      const read = (key: string) => readStorageValue(fixture.pool, guard.installationId, key);
      await eventually(() => read(`asked ${command}`));
      t.ok((await change()).status < 300);
      await storeKey(fixture.pool, guard, `go on ${command}`);
      return answer;
    };
    const changed = await runDuring('wait changed', () => fixture.call('PATCH', '/ssh-hosts/moved', { name: 'Moved' }));
    t.match(changed.body.detail, /the SSH host was changed or removed meanwhile/);
    const removed = await runDuring('wait removed', () => fixture.call('DELETE', '/ssh-hosts/moved'));
    t.match(removed.body.detail, /no SSH host/);
  });

  await t.test('log in with an encrypted key, whose passphrase is not kept', async (t) => {
    const encrypted = join(sshd.folder, 'encrypted');
    await writeFile(encrypted, privateKey, { mode: 0o600 });
    await promisify(execFile)('ssh-keygen', ['-q', '-p', '-P', '', '-N', 'open sesame', '-a', '2', '-f', encrypted]);
    const key = { privateKey: await read('encrypted'), passphrase: 'open sesame' };
    const added = await fixture.call('POST', '/ssh-hosts', {
      ...host,
      ...key,
      id: 'locked',
      hostKeys: [sshd.fingerprint],
    });
    t.match(added, { status: 201, body: { login: 'key' } });
    t.match((await run('locked')).body, { exitCode: 0, stdout: 'ran\n' });
    const [{ account_id: accountId, revision }] = (
      await fixture.pool.query(`SELECT account_id, revision FROM ssh_hosts WHERE id = 'locked'`)
    ).rows;
    const login = await readSshLogin(fixture.pool, fixture.keys, { accountId, hostId: 'locked', revision });
    t.same(Object.keys(login ?? {}), ['privateKey']);
    for (const passphrase of ['wrong', undefined])
      t.match(await fixture.call('POST', '/ssh-hosts', { ...host, ...key, id: 'shut', passphrase }), {
        status: 400,
        body: { detail: /its passphrase is missing or wrong/ },
      });
    t.match(await fixture.call('DELETE', '/ssh-hosts/locked'), { status: 204 });
  });

  await t.test('keep their login sealed: in no answer, no row, and no output', async (t) => {
    const added = await fixture.call('POST', '/ssh-hosts', {
      id: 'vault',
      name: 'Vault',
      address: '127.0.0.1',
      port: withPassword.port,
      user: 'ann',
      password: PASSWORD,
      hostKeys: [withPassword.fingerprint],
    });
    t.match(added, { status: 201, body: { login: 'password' } });
    const ran = await run('vault');
    t.equal(ran.body.stdout, 'you sent [secret password]\n', 'a host that tells the password tells it nobody');
    t.same(withPassword.given, [PASSWORD]);
    const { rows } = await fixture.pool.query('SELECT * FROM ssh_hosts');
    const lists = await fixture.call('GET', '/ssh-hosts');
    for (const text of [added.body, lists.body, rows, rows.map(({ sealed }) => sealed.toString('latin1'))])
      t.notOk(JSON.stringify(text).includes(PASSWORD));
    await fixture.pool.query(`UPDATE ssh_hosts SET id = 'moved' WHERE id = 'vault'`);
    t.match((await run('moved')).status, 500, 'a row that was moved does not open');
    t.match(
      await fixture.call('POST', '/ssh-hosts/moved/test'),
      { status: 500, body: { code: 'internal' } },
      'nor does a test say why',
    );
    await fixture.pool.query(`UPDATE ssh_hosts SET id = 'vault'`);
    t.match(await rotateKey(fixture.pool, fixture.keys, () => undefined), { sealed: 1 });
    t.match((await fixture.call('POST', '/ssh-hosts/vault/test')).body, { ok: true }, 'and opens with the new key');
    for (const change of [
      { address: 'evil.example.com' },
      { port: sshd.port },
      { user: 'bob' },
      { hostKeys: [sshd.fingerprint] },
      { hostKeys: [] },
    ])
      t.match(await fixture.call('PATCH', '/ssh-hosts/vault', change), {
        status: 400,
        body: { detail: /Send the password again/ },
      });
    t.match(await fixture.call('PATCH', '/ssh-hosts/vault', { name: 'The vault' }), { status: 200 });
  });

  await t.test('lead to public addresses only, at each connection', async (t) => {
    for (const address of [
      '127.0.0.1',
      '10.0.0.8',
      '169.254.169.254',
      '::1',
      'fe80::1',
      '::ffff:127.0.0.1',
      'localhost',
    ])
      t.match(await fixture.call('POST', '/ssh-hosts', { ...host, id: 'x', address, port: 22 }), {
        status: 400,
        body: { detail: /is not a public address/ },
      });
    for (const address of ['a b', 'x/y', 'http://x', '', 'a\n', '-x'])
      t.equal((await fixture.call('POST', '/ssh-hosts', { ...host, id: 'x', address })).status, 400);
    for (const [index, address] of ['127.1', '0x7f.1', '2130706433'].entries()) {
      await fixture.call('POST', '/ssh-hosts', { ...host, id: `odd${index}`, address });
      t.match((await fixture.call('POST', `/ssh-hosts/odd${index}/test`)).body, { ok: false, fault: /has no address/ });
    }
    dns.set('once.test', ['127.0.0.1'], ['127.0.0.2']);
    dns.set('inside.test', ['127.0.0.1']);
    const added = { ...host, hostKeys: [sshd.fingerprint] };
    t.equal((await fixture.call('POST', '/ssh-hosts', { ...added, id: 'inside', address: 'inside.test' })).status, 201);
    t.match((await run('inside')).body.detail, /inside\.test has an address that is not public/);
    t.match((await fixture.call('POST', '/ssh-hosts/inside/test')).body, { ok: false, fault: /not public/ });
    await fixture.call('POST', '/ssh-hosts', { ...added, id: 'once', address: 'once.test' });
    t.match((await fixture.call('POST', '/ssh-hosts/once/test')).body, { ok: true });
    t.same(
      dns.queries.filter((line) => line === 'A once.test'),
      ['A once.test'],
      'what was checked is what is connected to',
    );
  });

  await t.test('are refused with a sentence that names the field, never the key', async (t) => {
    const faults: [Record<string, unknown>, RegExp][] = [
      [{ privateKey: 'no key' }, /This is not a private key/],
      [{ privateKey: await read('user.pub') }, /This is not a private key/],
      [{ privateKey: undefined }, /Send the private key or the password/],
      [{ password: 'x' }, /not both/],
      [{ privateKey: undefined, passphrase: 'x' }, /Send the private key with its passphrase/],
    ];
    for (const [change, detail] of faults) {
      const refused = await fixture.call('POST', '/ssh-hosts', { ...host, id: 'y', ...change });
      t.match(refused, { status: 400, body: { detail } });
    }
    for (const change of [{ hostKeys: ['MD5:x'] }, { user: 'a\nb' }, { port: 0 }, { id: '../x' }, { name: '' }])
      t.equal((await fixture.call('POST', '/ssh-hosts', { ...host, id: 'y', ...change })).status, 400);
    t.match(await fixture.call('POST', '/ssh-hosts', { ...host, id: 'inside' }), { status: 409 });
    const other = fixture.withNewAccount();
    t.match((await other.call('GET', '/ssh-hosts')).body.items, []);
    t.equal((await other.call('GET', '/ssh-hosts/inside')).status, 404);
    t.equal((await other.call('POST', '/ssh-hosts/inside/test')).status, 404);
  });

  await soakTest(t, 'are called 30 times a minute', async (t) => {
    const other = fixture.withNewAccount();
    await other.call('POST', '/ssh-hosts', { ...host, id: 'h0', hostKeys: [`SHA256:${'A'.repeat(43)}`] });
    const before = sshd.total();
    let refused = await other.call('POST', '/ssh-hosts/h0/test');
    // A slow machine gets some connections back meanwhile.
    for (let count = 0; count < 100 && refused.status === 200; count += 1)
      refused = await other.call('POST', '/ssh-hosts/h0/test');
    t.match(refused, { status: 429, body: { detail: /rate limit exceeded: 30 SSH connections per minute/ } });
    t.ok(sshd.total() - before >= 30);
  });

  await t.test('are 100 at most', async (t) => {
    const other = fixture.withNewAccount();
    await other.call('POST', '/ssh-hosts', { ...host, id: 'h0', hostKeys: [`SHA256:${'A'.repeat(43)}`] });
    await other.pool.query(
      `INSERT INTO ssh_hosts (account_id, id, revision, name, address, port, user_name, host_keys, login, key_id, sealed)
       SELECT account_id, id || n, revision, name, address, port, user_name, host_keys, login, key_id, sealed
         FROM ssh_hosts, generate_series(1, 99) n WHERE id = 'h0'`,
    );
    t.match(await other.call('POST', '/ssh-hosts', { ...host, id: 'more' }), {
      status: 409,
      body: { code: 'too_many' },
    });
  });
});
