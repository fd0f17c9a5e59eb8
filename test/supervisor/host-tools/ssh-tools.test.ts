/** SSH as a service of the host, against a real OpenSSH server. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { noSshd, startSshd } from '../host/sshd.ts';
import { CrashOnce, refuseNotices, startSupervisorFixture } from '../supervisor-fixture.ts';

const GUARD = `
  const note = (hook) => (ctx) => {
    host.log('asked', { hook, trigger: ctx.trigger, commandId: ctx.commandId, host: ctx.host?.id });
    if (hook === 'command' && ctx.command.startsWith('rm')) ctx.cancel('not this');
    if (hook === 'input') return { data: ctx.data.replace('darn', 'dear') };
    if (hook === 'output') return { stdout: ctx.stdout.replace('hunter2', '[secret]') };
  };
  middleware.sshCommand = note('command');
  middleware.sshCommandInput = note('input');
  middleware.sshCommandOutput = note('output');
  middleware.toolResult = ({ result }) => {
    const [part] = result.content;
    if (!part.json?.stdout?.startsWith('key')) return;
    return { result: { content: [{ type: 'json', json: { ...part.json, stdout: part.json.stdout.replace('key', '[key]') } }] } };
  };`;

soakTest(
  t,
  'the agents of an account run more commands at once than an installation may',
  { skip: noSshd },
  async (t) => {
    const sshd = await startSshd(t);
    const fixture = await startSupervisorFixture(t, { sshTargets: await sshd.targets({ accounts: ['ann'] }) });
    const session = `/sessions/${await fixture.session()}`;
    const done = join(sshd.folder, 'done');
    const command = `until [ -e ${done} ]; do sleep 0.1; done`;
    const running = [1, 2, 3, 4, 5].map(() =>
      fixture.call('POST', `${session}/ssh`, { host: 'web', command, trigger: 'user' }),
    );
    const states = Promise.all(running.map(async (run) => (await run).status));
    await Promise.race([states, eventually(async () => sshd.open() === 5)]);
    await writeFile(done, '');
    t.same(await states, [200, 200, 200, 200, 200]);
  },
);

t.test('a command of an agent and of a person', { skip: noSshd }, async (t) => {
  const sshd = await startSshd(t);
  const crash = new CrashOnce();
  const fixture = await startSupervisorFixture(t, {
    sshTargets: await sshd.targets({ accounts: ['ann'] }),
    faultPoint: crash.faultPoint,
  });
  await fixture.install({ slug: 'guard', code: GUARD });
  const { body } = await fixture.call('POST', '/sessions', { agentId: 'operator', hostTools: ['ssh'] });
  const session = `/sessions/${body.id}`;
  const [host] = (await fixture.call('GET', `${session}/ssh-hosts`)).body.items;
  const command = { host: host.id, command: 'cat; echo hunter2', input: 'darn\n' };
  const ran = await fixture.call('POST', `${session}/ssh`, { ...command, trigger: 'user' });
  t.match(ran, { status: 200, body: { host, exitCode: 0, stdout: 'dear\n[secret]\n', stderr: '' } });
  const { commandId } = ran.body;
  t.match(
    await fixture.readLog('asked'),
    ['command', 'input', 'output'].map((hook) => ({ hook, trigger: 'user', commandId, host: host.id })),
    'one id and one host in all three hooks',
  );
  t.match(await fixture.call('POST', `${session}/ssh`, { ...command, command: 'rm x', trigger: 'user' }), {
    status: 409,
    body: { code: 'cancelled', detail: /not this/ },
  });
  t.match(await fixture.call('POST', `${session}/ssh`, { host: 'nowhere', command: 'ls', trigger: 'user' }), {
    status: 404,
    body: { code: 'not_found', detail: /no SSH host with the id “nowhere”\. GET \/sessions\/\{id\}\/ssh-hosts/ },
  });
  const slow = { host: host.id, command: 'sleep 60', timeoutMs: 100, trigger: 'user' };
  t.match(await fixture.call('POST', `${session}/ssh`, slow), {
    status: 502,
    body: {
      code: 'outcome_unknown',
      detail: /took longer than 100 ms, so its host was told to end it; some SSH servers/,
    },
  });
  const total = sshd.total();
  await fixture.call('POST', `${session}/turns`, { id: 't1', text: 'go', trigger: 'user' });
  const call = async (id: string, args: object, name = 'ssh__run') =>
    (await fixture.call('POST', `${session}/turns/t1/calls/${id}`, { name, arguments: args })).body;
  t.match(await call('c0', {}, 'ssh__hosts'), { content: [{ json: { hosts: [host] } }] });
  t.match(await call('c1', { host: host.id, command: 'rm x' }), { isError: true, content: [{ text: /not this/ }] });
  t.equal(sshd.total(), total, 'nothing was sent');
  t.match(await call('c2', { host: host.id, command: 'exit 3' }), {
    isError: false,
    content: [{ json: { exitCode: 3 } }],
  });
  const log = await call('c6', { host: host.id, command: "echo key; head -c 300000 /dev/zero | tr '\\0' x" });
  t.match(log.content, [{ json: { stdout: /^\[key\]\nx+\n\[truncated\]\n$/ } }], 'larger than a result of a plugin');
  t.match(await call('c3', { host: 'nowhere', command: 'ls' }), { isError: true, content: [{ text: /no SSH host/ }] });
  t.match(await call('c4', { host: host.id, command: 'sleep 60', timeoutMs: 100 }), {
    isError: true,
    content: [{ text: /took longer than 100 ms/ }],
  });
  t.match((await fixture.readLog('asked')).at(-1), { hook: 'command', trigger: 'agent' });
  crash.next = 'call.answered';
  await call('c5', { host: host.id, command: 'echo once' });
  t.equal(crash.next, '', 'the answer was lost');
  const asked = (await fixture.readLog('asked')).length;
  t.match(await call('c5', { host: host.id, command: 'echo once' }), {
    isError: true,
    content: [{ text: /may have run/ }],
  });
  t.equal((await fixture.readLog('asked')).length, asked, 'and it does not run again');
  const other = fixture.withNewAccount();
  const theirs = await other.call('POST', '/sessions', { agentId: 'x', hostTools: ['ssh'] });
  t.match(
    await other.call('GET', `/sessions/${theirs.body.id}/ssh-hosts`),
    { status: 200, body: { items: [] } },
    'not of another account',
  );
});

t.test('a command whose output could not be judged does not run again', { skip: noSshd }, async (t) => {
  const sshd = await startSshd(t);
  const fixture = await startSupervisorFixture(t, { sshTargets: await sshd.targets({ accounts: ['ann'] }) });
  const code = `middleware.sshCommandOutput = () => { throw new Error('x'); };`;
  await fixture.install({ required: true, code });
  const { body } = await fixture.call('POST', '/sessions', { agentId: 'operator', hostTools: ['ssh'] });
  const session = `/sessions/${body.id}`;
  const [host] = (await fixture.call('GET', `${session}/ssh-hosts`)).body.items;
  const ran = join(sshd.folder, 'ran');
  const run = (name: string) => ({ host: host.id, command: `echo ${name} >> ${ran}` });
  const withheld =
    /^The command ran, but plugins could not judge its output\. Check what it did .*“.+” failed with an error, .*requires it\. See the plugin’s log/;
  const stopped = await fixture.call('POST', `${session}/ssh`, { ...run('vetoed'), trigger: 'user' });
  t.match(stopped, { status: 502, body: { code: 'outcome_unknown', detail: withheld } });
  t.notOk('retry-after' in stopped.headers);
  t.notMatch(stopped.body.detail, /Try again/);
  await fixture.call('POST', `${session}/turns`, { id: 't0', text: 'go', trigger: 'user' });
  const first = { name: 'ssh__run', arguments: run('agent') };
  const { content } = (await fixture.call('POST', `${session}/turns/t0/calls/c1`, first)).body;
  t.match(content, [{ text: withheld }]);
  t.notMatch(content[0].text, /Try again/);
  await refuseNotices(fixture, body.id);
  const lost = await fixture.call('POST', `${session}/ssh`, { ...run('direct'), trigger: 'user' });
  t.match(lost, { status: 502, body: { code: 'outcome_unknown', detail: /^The command ran, but/ } });
  t.notOk('retry-after' in lost.headers);
  await fixture.call('POST', `${session}/turns`, { id: 't1', text: 'go', trigger: 'user' });
  const call = async () =>
    (await fixture.call('POST', `${session}/turns/t1/calls/c1`, { name: 'ssh__run', arguments: run('called') })).body;
  for (let attempt = 0; attempt < 2; attempt += 1)
    t.match(await call(), { isError: true, content: [{ text: /^The command ran, but/ }] });
  t.equal(await readFile(ran, 'utf8'), 'vetoed\nagent\ndirect\ncalled\n');
  // The notices of the first two are tried until they are written.
  await fixture.pool.query('DROP TRIGGER refuse_notice ON session_messages');
});
