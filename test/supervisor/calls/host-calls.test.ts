/** `host.*`: absent without a grant, refused when forged, real with one, and every call in the audit. */
import t from 'tap';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import { serve } from '../../fixtures/listening-server.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { startDns } from '../host/dns-server.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

const tool = (body: string, name = 'run') =>
  `tools.${name} = { description: 'd', parameters: { type: 'object' }, handler: async (args, ctx) => { ${body} } };`;

async function run(fixture: SupervisorFixture, slug: string, args: unknown = {}, session?: string) {
  const id = session ?? (await fixture.session());
  const answer = await fixture.call('POST', `/sessions/${id}/tools/${slug}__run`, { arguments: args });
  return answer.body.content?.[0]?.text ?? answer.body.content?.[0]?.json ?? answer.body;
}
const audit = async (fixture: SupervisorFixture, installationId: string) => {
  await fixture.supervisor.audit.flush();
  const { rows } = await fixture.pool.query('SELECT * FROM audit WHERE installation_id = $1 ORDER BY id', [
    installationId,
  ]);
  return rows;
};

t.test('without capabilities host is assets, log, settings and secrets', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: 'bare', code: tool('return Object.keys(host).sort().join();') });
  t.equal(await run(fixture, 'bare'), 'assets,log,secrets,settings');
});

t.test('members that no grant covers are absent too', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'wants',
    capabilities: ['host.storage:read', 'host.session', 'host.http:example.com'],
    code: tool(
      'return Object.keys(host).sort().join() + " " + Object.keys(host.storage).sort().join() + " " + Object.keys(host.session).sort().join();',
    ),
  });
  t.equal(
    await run(fixture, 'wants'),
    'assets,http,log,secrets,session,settings,storage get,list get,messages,notice,post',
  );
});

t.test('a plugin reads the assets of its version', async (t) => {
  const fixture = shared.withNewAccount();
  const code = tool(`
    const failing = (call) => call.then(() => 'read', ({ message }) => message.replace(/^host[.]assets[.][a-zA-Z]+: /, ''));
    return { content: [{ type: 'json', json: {
      bytes: [...(await host.assets.read('a/dot.bin'))],
      text: await host.assets.readText('towns.csv'),
      refused: [
        await failing(host.assets.readText('a/dot.bin')),
        await failing(host.assets.read('big.bin')),
        await failing(host.assets.read('none.csv')),
        await failing(host.assets.read('../readme.md')),
        await failing(host.assets.read('/towns.csv')),
        await failing(host.assets.read('a\\u0000')),
      ],
    } }] };`);
  const files = {
    'readme.md': 'x',
    'assets/a/dot.bin': new Uint8Array([0, 255, 1]),
    'assets/towns.csv': 'name\nZürich\n',
    'assets/big.bin': new Uint8Array(2 * 1024 * 1024 + 1),
  };
  await fixture.install({ slug: 'atlas', code, files });
  const none = 'the package has no asset with this path; give the path below assets/ exactly as it was published';
  t.same(await run(fixture, 'atlas'), {
    bytes: [0, 255, 1],
    text: 'name\nZürich\n',
    refused: [
      'assets/a/dot.bin is not UTF-8 text; read it with host.assets.read',
      'assets/big.bin has 2097153 bytes; a call reads 2097152 at most: split the file',
      ...[none, none, none, none],
    ],
  });
});

t.test('a version that goes on because the next one does not start reads its own assets', async (t) => {
  const fixture = shared.withNewAccount();
  const code = tool(`return host.assets.readText('name.txt');`);
  const made = await fixture.install({ slug: 'kept', code, files: { 'assets/name.txt': 'first' } });
  t.equal(await run(fixture, 'kept'), 'first');
  const registrations = (await fixture.supervisor.pluginsCache.get(made.accountId)).plugins[0]?.registrations;
  const broken = { semVer: '2.0.0', code: 'throw new Error("broken start");', registrations };
  await fixture.update(made, { ...broken, files: { 'assets/name.txt': 'second' } });
  const refused = `SELECT 1 FROM plugin_logs WHERE installation_id = $1 AND message LIKE '2.0.0 does not start, 1.0.0 keeps running%'`;
  await eventually(async () => {
    await fixture.supervisor.logs.flush();
    return (await fixture.pool.query(refused, [made.installationId])).rowCount === 1;
  });
  t.equal(await run(fixture, 'kept'), 'first');
});

t.test('storage keeps exact JSON within its quota, each installation its own', async (t) => {
  const fixture = await startSupervisorFixture(t, { storageBytes: 1_000 });
  const code = tool(`
    const odd = { a: [1, null, 'x\\u0000y'], z: 1, b: { deep: true } };
    await host.storage.set('odd', odd);
    const back = JSON.stringify(await host.storage.get('odd')) === JSON.stringify(odd);
    const missing = await host.storage.get('nothing');
    const full = await host.storage.set('big', 'x'.repeat(2000)).catch((error) => error.message);
    await host.storage.set('p/1', 1);
    const keys = await host.storage.list('p/');
    await host.storage.delete('p/1');
    const bad = await host.storage.set('a\\u0000', 1).catch((error) => error.message);
    return { content: [{ type: 'json', json: { back, missing, full, keys, left: await host.storage.list(), bad } }] };`);
  await fixture.install({ slug: 'one', capabilities: ['host.storage'], code });
  await fixture.install({
    slug: 'two',
    capabilities: ['host.storage'],
    code: tool('return { content: [{ type: "json", json: await host.storage.list() }] };'),
  });
  const seen = await run(fixture, 'one');
  t.match(seen, { back: true, missing: null, keys: ['p/1'], left: ['odd'], full: /storage is full/, bad: /U\+0000/ });
  t.same(await run(fixture, 'two'), []);
});

t.test('wrong arguments are refused with the types that are allowed, the name of the call and a code', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'mistyped',
    capabilities: ['host.media', 'host.workspace', 'host.storage', 'host.http:example.com'],
    code: tool(`
      const failing = (call) => call.then(() => 'done', ({ code, message }) => code + ' ' + message);
      return { content: [{ type: 'json', json: [
        await failing(host.media.put('text')),
        await failing(host.workspace.write('a', 5)),
        await failing(host.http.fetch('https://example.com/', { body: { a: 1 } })),
        await failing(host.storage.set('x', { a: 10n })),
      ] }] };`),
  });
  t.same(await run(fixture, 'mistyped'), [
    'failed host.media.put: content: must be bytes, not text',
    'failed host.workspace.write: content: must be text or bytes',
    'failed host.http.fetch: init.body: must be text or bytes',
    'failed host.storage.set: the arguments cannot be sent: args[1].a is a BigInt, which JSON cannot hold. Pass String(value)',
  ]);
});

soakTest(t, 'a list of more keys than fit is refused, not cut', async (t) => {
  const fixture = shared.withNewAccount();
  const code = tool(
    `const list = (prefix) => host.storage.list(prefix).then((keys) => keys.length, (error) => error.message);
    return { content: [{ type: 'json', json: [await list(), await list('k')] }] };`,
  );
  const { installationId } = await fixture.install({ slug: 'lister', capabilities: ['host.storage'], code });
  await fixture.pool.query(
    `INSERT INTO installation_storage (installation_id, key, value, size_bytes)
     SELECT $1, CASE n WHEN 0 THEN 'other' ELSE 'k' || n END, '1', 7 FROM generate_series(0, $2::int) n`,
    [installationId, limits.storageListKeys],
  );
  const [all, some] = await run(fixture, 'lister');
  t.match(all, /there are more than 10000 keys: list a longer prefix/);
  t.equal(some, limits.storageListKeys);
});

soakTest(t, 'answers of web servers arrive whole up to their limit: 2 MiB, of which text may have half', async (t) => {
  const dns = await startDns(t);
  dns.set('api.test', ['127.0.0.1']);
  const rows = JSON.stringify(Array.from({ length: 70_000 }, (_, index) => ({ id: index })));
  const { port } = await serve(t, (request, response) => {
    const isText = request.url === '/rows';
    response.writeHead(200, { 'content-type': isText ? 'application/json' : 'application/octet-stream' });
    response.end(isText ? rows : Buffer.alloc(1_900_000, 0xff));
  });
  const http = { dnsServers: [dns.address], allowPrivate: new Set([`api.test:${port}`]) };
  const fixture = await startSupervisorFixture(t, { http });
  const code = tool(`
    const { bodyText, bodyBytes } = await host.http.fetch('http://api.test:${port}' + args.path);
    return { content: [{ type: 'json', json: [bodyText.length, bodyBytes.length] }] };`);
  await fixture.install({ slug: 'reader', capabilities: ['host.http:api.test'], code });
  t.ok(rows.length > 850_000);
  t.same(await run(fixture, 'reader', { path: '/rows' }), [rows.length, rows.length]);
  t.same(await run(fixture, 'reader', { path: '/octets' }), [0, 1_900_000]);
});

t.test('a plugin reads only the secrets of its installation', async (t) => {
  const fixture = shared.withNewAccount();
  const code = tool(
    // Split, because values of secrets are masked in answers.
    'return { content: [{ type: "json", json: [[...await host.secrets.get("key")], await host.secrets.get("other")] }] };',
  );
  await fixture.install({ slug: 'one-2', secrets: { key: 'for one' }, code });
  await fixture.install({ slug: 'two-2', secrets: { key: 'for two' }, code });
  t.same(await run(fixture, 'one-2'), [[...'for one'], null]);
  t.same(await run(fixture, 'two-2'), [[...'for two'], null]);
});

t.test(
  'a plugin reads no secret that its version does not declare, and none further than its user allowed',
  async (t) => {
    const fixture = shared.withNewAccount();
    // Split, because values of secrets are masked in answers.
    const code = tool(
      'return { content: [{ type: "json", json: [...(await host.secrets.get("key")) ?? ["none"]] }] };',
    );
    const made = await fixture.install({ slug: 'trusted', secrets: { key: 'given' }, code });
    t.same(await run(fixture, 'trusted'), [...'given']);
    await fixture.update(made, { slug: 'trusted', code, semVer: '1.0.1' });
    // Until the new version serves, the old one is refused what it has lost.
    await eventually(async () => String(await run(fixture, 'trusted')) === 'none');
    await fixture.update(made, { slug: 'trusted', code, semVer: '1.0.2', secretUses: { key: null } });
    const sql = 'UPDATE installation_secrets SET capabilities = $2 WHERE installation_id = $1';
    await fixture.pool.query(sql, [made.installationId, ['secrets.key:webhooks']]);
    t.match(String(await run(fixture, 'trusted')).replaceAll(',', ''), /^secret:key:[0-9a-f]{32}$/);
  },
);

t.test('a host call uses the session of its handler, and the access ends with the handler', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'talker',
    capabilities: ['host.session'],
    code: `let kept;
      ${tool(`
        if (args.late) { const late = await kept(); return String(late); }
        const { id } = await host.session.get();
        await host.session.post('hello');
        await host.session.notice('psst');
        const texts = (await host.session.messages()).map((m) => m.role + ':' + m.text);
        let release;
        const gate = new Promise((resolve) => { release = resolve; });
        const background = gate.then(() => host.session.get()).then(() => 'worked', (error) => error.message);
        kept = () => { release(); return background; };
        return { content: [{ type: 'json', json: { id, texts } }] };`)}`,
  });
  const [mine, other] = [await fixture.session(), await fixture.session()];
  t.same(await run(fixture, 'talker', {}, mine), { id: mine, texts: ['assistant:hello', 'notice:psst'] });
  t.match(await run(fixture, 'talker', { late: true }, other), /only in a handler|is over/);
  const rows = await audit(fixture, made.installationId);
  t.match(
    rows.map((row) => [row.member, row.outcome, row.session_id]),
    [
      ['session.get', 'ok', mine],
      ['session.post', 'ok', mine],
      ['session.notice', 'ok', mine],
      ['session.messages', 'ok', mine],
      ['session.get', 'failed', null],
    ],
  );
  t.match(rows[0].arguments_sha256, /^[0-9a-f]{64}$/);
  t.notSame(rows[1].arguments_sha256, rows[2].arguments_sha256);
  t.notMatch(JSON.stringify(rows), /hello|psst/, 'digests, no contents');
});

t.test('a revoked grant ends for the running child, even for a kept reference', async (t) => {
  const fixture = shared.withNewAccount();
  const made = await fixture.install({
    slug: 'keeper',
    capabilities: ['host.storage'],
    code: `let kept; ${tool(`kept ??= host.storage; return kept.list().then(() => 'listed', (error) => error.message);`)}`,
  });
  const session = await fixture.session();
  t.equal(await run(fixture, 'keeper', {}, session), 'listed');
  await fixture.pool.query(
    `UPDATE installations SET granted_capabilities = '{}', updated_at = clock_timestamp() WHERE id = $1`,
    [made.installationId],
  );
  await notifyInstallationChanged(fixture.pool, made.installationId);
  // A call that runs while the grant ends is refused with "any more", after its arguments were read.
  await eventually(async () => /not granted(?! any more)/.test(String(await run(fixture, 'keeper', {}, session))));
  const rows = await audit(fixture, made.installationId);
  t.match(rows.at(-1), { member: 'storage.list', outcome: 'denied', arguments_sha256: null });
  await fixture.supervisor.logs.flush();
  const lines = await fixture.pool.query(`SELECT message FROM plugin_logs WHERE installation_id = $1`, [
    made.installationId,
  ]);
  t.match(lines.rows.map((row) => row.message).join(), /Denied: host.storage.list is not granted/);
});

t.test('the audit has the code of an internal error, and only the operator its message', async (t) => {
  const errors: Error[] = [];
  const fixture = await startSupervisorFixture(t, { onError: (error) => void errors.push(error) });
  const code = tool(`return host.storage.get('k').then(() => 'read', ({ message }) => message);`);
  const made = await fixture.install({ slug: 'unlucky', capabilities: ['host.storage'], code });
  await fixture.pool.query(
    `INSERT INTO installation_storage (installation_id, key, value, size_bytes) VALUES ($1, 'k', 'no JSON', 8)`,
    [made.installationId],
  );
  t.equal(await run(fixture, 'unlucky'), 'host.storage.get failed');
  await fixture.pool.query('ALTER TABLE installation_storage RENAME TO moved');
  t.equal(await run(fixture, 'unlucky'), 'host.storage.get failed');
  await fixture.pool.query(`CREATE FUNCTION refuse() RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN RAISE SQLSTATE '57P03' USING MESSAGE = 'starting up'; END $$`);
  await fixture.pool.query(
    'CREATE VIEW installation_storage AS SELECT installation_id, key, refuse() AS value FROM moved',
  );
  const unavailable = 'host.storage.get failed: the database is unavailable. Try again shortly.';
  t.equal(await run(fixture, 'unlucky'), unavailable);
  t.same(
    (await audit(fixture, made.installationId)).map(({ outcome, detail }) => [outcome, detail]),
    [
      ['failed', 'host.storage.get failed'],
      ['failed', 'host.storage.get failed: 42P01'],
      ['failed', 'host.storage.get failed: 57P03'],
    ],
  );
  t.match(
    errors.map(({ message }) => message),
    [/is not valid JSON/, /relation "installation_storage" does not exist/, /starting up/],
  );
});

t.test('calls over the cap a minute are denied', async (t) => {
  const fixture = await startSupervisorFixture(t, { hostCallsPerMinute: 5 });
  await fixture.install({
    slug: 'eager',
    capabilities: ['host.storage'],
    code: tool(
      `let ok = 0; let why = ''; for (let i = 0; i < 8; i++) await host.storage.list().then(() => ok++, (e) => { why = e.message; }); return ok + ' ' + why;`,
    ),
  });
  t.match(await run(fixture, 'eager'), /^5 .*rate limit exceeded: 5 host calls a minute; try again in \d\d? s/);
});

t.test('wrong arguments are named', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({
    slug: 'wrong',
    capabilities: ['host.storage', 'host.session'],
    code: tool(`const tries = [() => host.storage.get(), () => host.storage.get(7), () => host.storage.get('a', 'b'), () => host.session.messages(0), () => host.storage.list(null)];
      const said = [];
      for (const one of tries) said.push(await one().then(() => 'fine', (error) => error.message));
      return { content: [{ type: 'json', json: said }] };`),
  });
  t.match(await run(fixture, 'wrong'), [
    /storage.get: key/,
    /storage.get: key/,
    /at most 1 arguments/,
    /limit/,
    'fine',
  ]);
});
