/** The inspector of an author's own draft, with a real debugger client, and the callers that it refuses. */

import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import CDP from 'chrome-remote-interface';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { findOrCreateAccount, setOperator } from '../../../db/accounts/accounts.ts';
import { DRAFT_SEM_VER } from '../../../db/installations/account-plugins.ts';
import { readEvents, type ServerSentEvent } from '../../../sdk/session/event-stream.ts';
import type { Fleet } from '../../../supervisor/children/fleet.ts';
import { Inspections } from '../../../supervisor/children/inspector/inspections.ts';
import { startSupervisor } from '../../../supervisor/supervisor.ts';
import { eventually } from '../../runner/eventually.ts';
import { amount, soakTest } from '../../runner/soak.ts';
import { defaultOptions } from '../default-options.ts';
import { type Installed, type PluginSource, type Reply, startSupervisorFixture } from '../supervisor-fixture.ts';

const fixture = await startSupervisorFixture(t, { inspect: true });
await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const { port } = fixture.app.server.address() as AddressInfo;
const base = `http://127.0.0.1:${port}`;

const code = `tools.add = {
  description: 'Adds two',
  parameters: {},
  handler: ({ a }) => {
    const sum = a + 2;
    host.log('added');
    return String(sum);
  },
};`;

async function installDraft(source: Partial<PluginSource> = {}): Promise<Installed> {
  const installed = await fixture.install({ code, ...source });
  await asDraft(installed);
  return installed;
}
async function asDraft({ installationId, pluginId }: Installed): Promise<void> {
  await fixture.pool.query(
    `WITH made AS (UPDATE versions SET semver = NULL, status = 'draft' WHERE id = (SELECT current_version_id FROM installations WHERE id = $1 AND plugin_id = $2))
     UPDATE installations SET version_policy = 'Draft', updated_at = clock_timestamp() WHERE id = $1`,
    [installationId, pluginId],
  );
}

async function open(test: Test, installationId: string, account = 'ann', token?: string, at = base) {
  const gone = new AbortController();
  test.teardown(() => gone.abort());
  const response = await fetch(`${at}/installations/${installationId}/inspector`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token ?? (await fixture.issuer.issue(account))}` },
    signal: gone.signal,
  });
  if (!response.ok || !response.body) throw new Error(`refused: ${await response.text()}`);
  const events = readEvents(response.body);
  const next = async (type: string): Promise<ServerSentEvent> => {
    for (;;) {
      const { value, done } = await events.next();
      if (done) throw new Error('the stream ended');
      if (value.type === type) return value;
    }
  };
  const { path } = JSON.parse((await next('open')).data);
  return { path: path as string, next, end: () => gone.abort() };
}

async function debug(test: Test, path: string, at = base) {
  const client = await CDP({ target: `${at.replace('http', 'ws')}${path}`, local: true });
  test.teardown(() => client.close());
  return client;
}
interface Paused {
  readonly callFrames: readonly { readonly callFrameId: string }[];
}
const call = async (session: string, { slug }: Installed, args: object) =>
  fixture.call('POST', `/sessions/${session}/tools/${slug}__add`, { arguments: args });

/** Resolves with the pause. Rejects with the answer if that comes first, so that the failure shows it. */
async function orRefused<T>(paused: Promise<T>, answer: Promise<Reply>): Promise<T> {
  const early = answer.then(({ status, body }) => {
    throw new Error(`it was not paused: ${status} ${JSON.stringify(body)}`);
  });
  early.catch(() => undefined);
  return Promise.race([paused, early]);
}

t.test('an inspector closes with the token that opened it', async (t) => {
  const draft = await installDraft();
  const { token, revoke } = await fixture.issueRevocable('ann');
  const { path, next } = await open(t, draft.installationId, 'ann', token);
  const client = await debug(t, path);
  const closed = new Promise((resolve) => client.on('disconnect', () => resolve(true)));
  const revokedAt = performance.now();
  await revoke();
  t.match(JSON.parse((await next('closed')).data), { reason: 'the token that opened it ended' });
  await closed;
  t.ok(performance.now() - revokedAt < 10_000, `${performance.now() - revokedAt} ms`);
});

t.test('a breakpoint is hit, looked at and left, while the deadline is paused', async (t) => {
  const draft = await installDraft();
  const session = await fixture.session();
  const { path } = await open(t, draft.installationId);
  const client = await debug(t, path);
  const scripts: string[] = [];
  client.Debugger.on('scriptParsed', ({ url }) => scripts.push(url));
  await client.Runtime.enable();
  await client.Debugger.enable({});
  const name = scripts.find((url) => url.startsWith(draft.slug)) ?? '';
  t.equal(name, `${draft.slug}@0.0.0-draft`);
  const { locations } = await client.Debugger.setBreakpointByUrl({ url: name, lineNumber: 4 });
  t.equal(locations.length, 1);

  const paused = new Promise<Paused>((resolve) => client.Debugger.paused(resolve));
  const answer = call(session, draft, { a: 40 });
  const { callFrames } = await orRefused(paused, answer);
  const frame = callFrames[0]?.callFrameId ?? '';
  const { result } = await client.Debugger.evaluateOnCallFrame({ callFrameId: frame, expression: 'a' });
  t.equal(result.value, 40);
  await client.Debugger.resume({});
  t.match((await answer).body, { content: [{ type: 'text', text: '42' }], isError: false });

  // States are saved together, some times a second.
  const isSaved = async () =>
    (
      await fixture.pool.query('SELECT 1 FROM installation_runtime WHERE installation_id = $1 AND inspected', [
        draft.installationId,
      ])
    ).rowCount === 1;
  t.equal(await eventually(isSaved), true, 'its state says so');
});

t.test('a budget that would be used up is not, until the debugger goes', async (t) => {
  const hook = await installDraft({
    code: `middleware.systemPrompt = ({ systemPrompt }) => { debugger; return systemPrompt + '!'; };`,
  });
  const session = await fixture.session();
  const { path, next } = await open(t, hook.installationId);
  const client = await debug(t, path);
  await next('attached');
  await client.Debugger.enable({});
  const paused = new Promise<Paused>((resolve) => client.Debugger.paused(resolve));
  const context = { systemPrompt: 'Hi', model: 'm' };
  const answer = fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context });
  await orRefused(paused, answer);
  // Longer than the 3 seconds a prompt hook has.
  await new Promise((resolve) => setTimeout(resolve, 3_300));
  // A client that disconnects without resuming must not leave the plugin paused.
  await client.close();
  t.match((await answer).body, { context: { systemPrompt: 'Hi!' }, trace: [{ outcome: 'changed' }] });
});

t.test('console and evaluation work, and reach nothing outside the jail', async (t) => {
  const draft = await installDraft();
  const { path } = await open(t, draft.installationId);
  const client = await debug(t, path);
  await client.Runtime.enable();
  const evaluate = async (expression: string) => {
    const { result } = await client.Runtime.evaluate({ expression, awaitPromise: true });
    return result.value ?? result.description;
  };
  t.equal(await evaluate('6 * 7'), 42);
  const logged = new Promise<{ args: { value?: unknown }[] }>((resolve) => client.Runtime.consoleAPICalled(resolve));
  await evaluate(`console.log('seen')`);
  t.match((await logged).args, [{ value: 'seen' }]);
  const session = await fixture.session();
  t.match((await call(session, draft, { a: 1 })).body, { content: [{ text: '3' }] }, 'the connection is intact');
  const has = (grant: string) => evaluate(`process.permission.has('${grant}')`);
  for (const grant of ['fs.read', 'fs.write', 'worker', 'child', 'net', 'addon'])
    t.equal(await has(grant), false, `no grant ${grant}`);
  const builtin = (name: string, use: string) =>
    evaluate(
      `(() => { try { return String(process.getBuiltinModule('${name}').${use}); } catch (error) { return error.code ?? error.message; } })()`,
    );
  t.match(await builtin('node:fs', `readFileSync('/etc/passwd', 'utf8')`), /ERR_ACCESS_DENIED|ENOENT/);
  t.match(await builtin('node:child_process', `execSync('id')`), /ERR_ACCESS_DENIED/);
  t.equal(await evaluate('Object.keys(process.env).join()'), 'PWD', 'nothing of the host in the environment');
});

t.test('a saved draft moves it to the new child', async (t) => {
  const draft = await installDraft();
  const { path, next } = await open(t, draft.installationId);
  const client = await debug(t, path);
  const left = new Promise((resolve) => client.on('disconnect', () => resolve(true)));
  // For the supervisor a saved draft is another version with the draft's version number.
  await fixture.update(draft, { code: code.replace('a + 2', 'a + 3'), semVer: DRAFT_SEM_VER });
  await next('moved');
  await left;
  const again = await debug(t, path);
  await again.Runtime.enable();
  t.match((await call(await fixture.session(), draft, { a: 1 })).body, { content: [{ text: '4' }] });
});

t.test('when its request ends, everything is as before', async (t) => {
  const draft = await installDraft();
  const { path, end } = await open(t, draft.installationId);
  const client = await debug(t, path);
  const left = new Promise((resolve) => client.on('disconnect', () => resolve(true)));
  const inspected = fixture.supervisor.fleet.getPid(draft.installationId);
  end();
  await left;
  await t.rejects(debug(t, path), /404/, 'the address is dead');
  await eventually(async () => fixture.supervisor.fleet.getPid(draft.installationId) !== inspected);
  t.match((await call(await fixture.session(), draft, { a: 1 })).body, { content: [{ text: '3' }] });
  const audit = await eventually(async () => {
    await fixture.supervisor.audit.flush();
    const { rows } = await fixture.pool.query<{ member: string }>(
      'SELECT member FROM audit WHERE installation_id = $1 ORDER BY id',
      [draft.installationId],
    );
    return rows.length === 2 && rows.map(({ member }) => member);
  });
  t.same(audit, ['inspector.open', 'inspector.close']);
});

t.test('a second debugger and a second inspector are refused', async (t) => {
  const draft = await installDraft();
  const { path } = await open(t, draft.installationId);
  await debug(t, path);
  const second = new WebSocket(`ws://127.0.0.1:${port}${path}`);
  const { code: closed } = await new Promise<CloseEvent>((resolve) => second.addEventListener('close', resolve));
  t.equal(closed, 1013);
  await t.rejects(open(t, draft.installationId), /inspector_open/);
});

t.test('debuggers that connect again and again are refused before they take a connection', async (t) => {
  const draft = await installDraft();
  const { path } = await open(t, draft.installationId);
  const attempts = Array.from({ length: 40 }, async () => {
    const client = connect(port, '127.0.0.1');
    t.teardown(() => client.destroy());
    client.write(
      `GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
    );
    const [answer] = await once(client, 'data');
    return String(answer);
  });
  const answers = await Promise.all(attempts);
  const refused = answers.filter((answer) => !answer.startsWith('HTTP/1.1 101 '));
  t.ok(refused.length >= 20, `${refused.length} of ${answers.length} are refused`);
  for (const answer of refused)
    t.match(answer, /^HTTP\/1\.1 429 .*"code":"rate_limited".*30 per minute of one inspector/s);
  const other = await open(t, (await installDraft()).installationId);
  await (await debug(t, other.path)).Runtime.enable();
});

t.test('what is no command ends the debugger’s connection, and nothing else', async (t) => {
  const draft = await installDraft();
  const { path } = await open(t, draft.installationId);
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`);
  socket.addEventListener('open', () => socket.send('{"id":"one"}'));
  const { code: closed } = await new Promise<CloseEvent>((resolve) => socket.addEventListener('close', resolve));
  t.equal(closed, 1007);
  await (await debug(t, path)).Runtime.enable();
});

t.test('other accounts and other ids are refused', async (t) => {
  const draft = await installDraft();
  const post = (id: string, account?: string) =>
    fixture.call('POST', `/installations/${id}/inspector`, undefined, account);
  t.match(await post(draft.installationId, 'bob'), { status: 404, body: { code: 'not_found' } });
  await setOperator(fixture.pool, (await findOrCreateAccount(fixture.pool, 'eve')).id, true);
  t.match(await post(draft.installationId, 'eve'), { status: 404 }, 'an operator of another account');
  const published = await fixture.install({ code });
  t.match(await post(published.installationId), { status: 409, body: { code: 'not_a_draft' } });
  const foreign = await fixture.install({ code, account: 'ann', owner: 'bob' });
  await asDraft(foreign);
  t.match(await post(foreign.installationId), { status: 409, body: { code: 'not_a_draft' } });
  const paused = await installDraft({ status: 'paused' });
  t.match(await post(paused.installationId), { status: 409, body: { code: 'not_running' } });
  const stranger = await fetch(`${base}/installations/${draft.installationId}/inspector`, { method: 'POST' });
  t.equal(stranger.status, 401);
  await stranger.body?.cancel();
  await t.rejects(debug(t, `/inspector/${'x'.repeat(43)}`), /404/);
});

t.test('a refused connection is closed although its client leaves it open', async (t) => {
  const connected = once(fixture.app.server, 'connection');
  const client = connect(port, '127.0.0.1');
  t.teardown(() => client.destroy());
  const [accepted] = (await connected) as [Socket];
  const closed = once(accepted, 'close');
  const path = `/inspector/${'x'.repeat(48)}`;
  client.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`);
  await closed;
  t.match(await text(client), /^HTTP\/1\.1 404 /);
});

t.test('any supervisor leads a debugger to the one that has the inspector', async (t) => {
  const { pool, blobs, keys, verifier, sandbox, dataDir } = fixture;
  const forwarding = await startSupervisor({
    ...defaultOptions,
    pool,
    blobs,
    keys,
    verifier,
    sandbox,
    dataDir,
    logger: pino({ level: 'silent' }),
    childrenMax: 5,
    inspect: true,
    joins: false,
  });
  let isStopped = false;
  t.teardown(() => (isStopped ? undefined : forwarding.stop()));
  const at = await forwarding.app.listen({ port: 0, host: '127.0.0.1' });
  const draft = await installDraft();
  const session = await fixture.session();
  const { path, next, end } = await open(t, draft.installationId, 'ann', undefined, at);
  const client = await debug(t, path, at);
  await next('attached');
  await client.Debugger.enable({});
  await client.Debugger.setBreakpointByUrl({ url: `${draft.slug}@0.0.0-draft`, lineNumber: 4 });
  const paused = new Promise<Paused>((resolve) => client.Debugger.paused(resolve));
  const answer = call(session, draft, { a: 40 });
  await orRefused(paused, answer);
  await client.Debugger.resume({});
  t.match((await answer).body, { content: [{ type: 'text', text: '42' }], isError: false });
  const unknown = Buffer.from(path.slice('/inspector/'.length), 'base64url');
  unknown.fill(0, 4);
  await t.rejects(debug(t, `/inspector/${unknown.toString('base64url')}`, at), /404/, 'no inspector has this token');
  unknown.fill(1);
  await t.rejects(debug(t, `/inspector/${unknown.toString('base64url')}`, at), /404/, 'no supervisor has this id');
  const closed = new Promise((resolve) => client.on('disconnect', () => resolve(true)));
  const stopped = forwarding.stop();
  isStopped = true;
  t.equal(await closed, true, 'the debugger connects to another supervisor');
  // The stop waits ten seconds for a client that stays, and then ends its request.
  if (amount({ quick: true, soak: false })) end();
  await stopped;
  const again = await open(t, draft.installationId);
  t.ok(await debug(t, again.path), 'the inspector of the stopped one ended with its request');
});

t.test('it is off unless the operator switches it on', async (t) => {
  const off = await startSupervisorFixture(t);
  const { status, body } = await off.call('POST', '/installations/x/inspector');
  t.match({ status, body }, { status: 403, body: { code: 'inspector_off', detail: /INSPECT=on/ } });
});

soakTest(t, 'without the whole sandbox it stays off', async (t) => {
  const degraded = await startSupervisorFixture(t, {
    inspect: true,
    sandbox: { ...fixture.sandbox, state: 'degraded', missing: 'Install bubblewrap.', inspectable: null },
  });
  const { body } = await degraded.call('POST', '/installations/x/inspector');
  t.match(body, { code: 'inspector_off', detail: /Install bubblewrap/ });
});

t.test('one account gets two thirds of the inspectors, and the next one still gets its own', async (t) => {
  const { logs, audit } = fixture.supervisor;
  const fleet = { inspect: async () => () => undefined } as unknown as Fleet;
  const inspections = new Inspections({ supervisorId: 1, pool: fixture.pool, fleet, logs, audit, off: null });
  t.teardown(() => inspections.close());
  const openDraft = async (account: string) => {
    const { accountId, installationId } = await installDraft({ account });
    return inspections.open(accountId, installationId, () => undefined);
  };
  const opened = [];
  for (let count = 0; count < 11; count += 1) opened.push(await openDraft('greedy'));
  await t.rejects(openDraft('greedy'), { code: 'unavailable', message: /^This account has 11 inspectors open/ });
  await openDraft('modest');
  opened[0]?.end('its author has closed it');
  opened[1]?.end('its author has closed it');
  await t.resolves(openDraft('greedy'));
});
