/** `host.ssh` against a real OpenSSH server. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { formatCommandLine } from '../../../supervisor/host/ssh/command-line.ts';
import type { SshTarget } from '../../../supervisor/host/ssh/hosts.ts';
import type { SupervisorOptions } from '../../../supervisor/supervisor.ts';
import { eventually } from '../../runner/eventually.ts';
import { amount, soakTest } from '../../runner/soak.ts';
import { type Installed, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';
import { noSshd, type Sshd, startSshd } from './sshd.ts';

/** A tool that runs its argument and returns the result. */
const RUNNER = `tools.run = { description: 'd', parameters: { type: 'object' }, handler: async ({ hostId, command, options, brief }) => {
  try {
    const json = await host.ssh.run(hostId ?? 'web', command, options);
    if (brief) return JSON.stringify([json.exitCode, json.stdout.length, json.stdout.slice(-20)]);
    return { content: [{ type: 'json', json }] };
  }
  catch (error) { return error.message; }
} };
tools.hosts = { description: 'd', parameters: { type: 'object' }, handler: async () => JSON.stringify(await host.ssh.hosts()) };`;

interface Bench {
  readonly fixture: SupervisorFixture;
  readonly sshd: Sshd;
  readonly runner: Installed;
  readonly session: string;
  // biome-ignore lint/suspicious/noExplicitAny: an output or a text
  run(command: string, options?: unknown, hostId?: string): Promise<any>;
}

async function bench(
  t: Test,
  hosts: readonly Readonly<Record<string, unknown>>[] = [{}],
  options: Partial<SupervisorOptions> = {},
): Promise<Bench> {
  const sshd = await startSshd(t);
  const sshTargets: SshTarget[] = [];
  for (const changes of hosts) sshTargets.push(...(await sshd.targets(changes)));
  const fixture = await startSupervisorFixture(t, { sshTargets, ...options });
  const runner = await fixture.install({ slug: 'runner', capabilities: ['host.ssh'], code: RUNNER });
  const session = await fixture.session();
  const run: Bench['run'] = async (command, options, hostId) => {
    const call = { arguments: { command, options, hostId } };
    const { body } = await fixture.call('POST', `/sessions/${session}/tools/runner__run`, call);
    const [part] = body.content ?? [];
    return part?.json ?? part?.text ?? body;
  };
  return { fixture, sshd, runner, session, run };
}

t.test('variables that are too long are refused before they are quoted', (t) => {
  const format = (value: string) => () =>
    formatCommandLine({ command: 'ls', cwd: null, env: { X: value }, inputBytes: 0 });
  t.throws(format(`${'x'.repeat(200_000)}\0`), {
    message: /^command, cwd and env together are longer than 200000 bytes/,
  });
  t.throws(format("'".repeat(60_000)), { message: /longer than 200000 bytes once quoted/ });
  t.end();
});

t.test('a command', { skip: noSshd }, async (t) => {
  const { run, sshd, fixture, session } = await bench(t);
  await t.test('answers with code and both outputs', async (t) => {
    t.same(await run('echo out; echo err >&2; exit 3'), { exitCode: 3, stdout: 'out\n', stderr: 'err\n' });
  });
  await t.test('finds its input at its end, or what was given', async (t) => {
    t.same((await run('cat; echo end')).stdout, 'end\n');
    t.same((await run('wc -c', { input: 'é'.repeat(100_000) })).stdout.trim(), '200000');
    t.same(await run('exit 5', { input: 'x'.repeat(200_000) }), { exitCode: 5, stdout: '', stderr: '' });
  });
  await t.test('has its folder and variables, whatever they hold', async (t) => {
    const nasty = `a'b"c $(touch /tmp/never) \`id\`; \n\\ !`;
    t.equal((await run('pwd; printf %s "$X"', { cwd: '/usr', env: { X: nasty } })).stdout, `/usr\n${nasty}`);
    t.match(await run('echo ran', { cwd: `/nowhere'; echo injected; '` }), { stdout: '', exitCode: /[12]/ });
    t.match(await run('pwd', { cwd: '-' }), { stdout: '' });
    t.match(await run('pwd', { env: { 'X; id': '1' } }), /env: a name is letters/);
    t.match(await run('pwd', { env: { X: 'a\0b' } }), { status: 400, detail: /must not contain U\+0000/ });
  });
  await t.test('with much output are truncated, and the result says so', async (t) => {
    const arguments_ = { command: 'yes | head -c 5000000', brief: true };
    const { body } = await fixture.call('POST', `/sessions/${session}/tools/runner__run`, { arguments: arguments_ });
    t.equal(body.content[0].text, JSON.stringify([0, 262_144 + 13, '\ny\ny\ny\n\n[truncated]\n']));
  });
  await t.test('whose outputs are not text are truncated to what fits into a result', async (t) => {
    const bytes = `head -c 262144 /dev/zero | tr '\\0' '\\377'`;
    const arguments_ = { command: `${bytes}; ${bytes} >&2`, brief: true };
    const { body } = await fixture.call('POST', `/sessions/${session}/tools/runner__run`, { arguments: arguments_ });
    t.equal(body.content[0].text, JSON.stringify([0, 131_072 + 13, `${'\uFFFD'.repeat(7)}\n[truncated]\n`]));
  });
  await t.test('uses the connection of the previous command', async (t) => {
    t.equal(sshd.total(), 1);
    t.equal(sshd.open(), 1);
  });
  await t.test('that takes too long is ended, with its connection', async (t) => {
    t.match(await run('while echo x; do sleep 0.05; done', { timeoutMs: 300 }), /took longer than 300 ms/);
    await eventually(async () => sshd.open() === 0);
    t.equal((await run('echo again')).stdout, 'again\n');
  });
  await t.test('whose connection breaks fails, and the next one works', async (t) => {
    const started = join(sshd.folder, 'started');
    const result = run(`touch ${started}; while echo x; do sleep 0.05; done`);
    await eventually(async () => existsSync(started));
    sshd.breakAll();
    t.match(await result, /connection.*broke|cannot be reached|does not start commands/);
    t.equal((await run('echo again')).stdout, 'again\n');
  });
  await t.test('is logged without its text', async (t) => {
    await fixture.supervisor.logs.flush();
    const { rows } = await fixture.pool.query('SELECT message, data, session_id FROM plugin_logs');
    const lines = rows.filter(({ message }) => message.startsWith('host.ssh.run on Web server: exit 0'));
    t.ok(lines.length > 0);
    t.equal(lines[0]?.session_id, session);
    t.notMatch(JSON.stringify(rows), /again/);
  });
});

t.test('hosts', { skip: noSshd }, async (t) => {
  const { fixture, run, sshd } = await bench(t, [
    {},
    { id: 'changed', hostKeys: [`SHA256:${'A'.repeat(43)}`] },
    { id: 'strange', privateKeyFile: 'stranger' },
    { id: 'away', port: 1 },
  ]);
  await t.test('are those of the account, and others are as if they were not there', async (t) => {
    const listed = await fixture.call('POST', `/sessions/${await fixture.session()}/tools/runner__hosts`, {
      arguments: {},
    });
    const ids = ['web', 'changed', 'strange', 'away'];
    t.same(
      JSON.parse(listed.body.content[0].text),
      ids.map((id) => ({ id, name: 'Web server' })),
    );
    t.match(await run('id', {}, 'elsewhere'), /no SSH host of this account has this id/);
    await fixture.install({ slug: 'runner2', account: 'bob', capabilities: ['host.ssh'], code: RUNNER });
    const bobs = await fixture.session('bob');
    const none = await fixture.call('POST', `/sessions/${bobs}/tools/runner2__hosts`, { arguments: {} }, 'bob');
    t.equal(none.body.content[0].text, '[]');
    const call = { arguments: { command: 'id' } };
    const refused = await fixture.call('POST', `/sessions/${bobs}/tools/runner2__run`, call, 'bob');
    t.match(refused.body.content[0].text, /no SSH host of this account has this id/);
  });
  await t.test('that show another key are sent nothing', async (t) => {
    t.match(await run('id', {}, 'changed'), /Web server shows another host key than the pinned one/);
    await eventually(async () => sshd.open() === 0);
  });
  await t.test('that refuse our key, or are away, say so', async (t) => {
    t.match(await run('id', {}, 'strange'), /does not accept the configured key/);
    await eventually(async () => sshd.open() === 0);
    t.match(await run('id', {}, 'away'), /Web server cannot be reached/);
  });
  await soakTest(t, 'are added by the account or the operator', async (t) => {
    const { run } = await bench(t, []);
    t.match(await run('id'), /no SSH host of this account has this id/);
  });
  await t.test('in a file that is checked when the supervisor starts', async (t) => {
    const sshd = await startSshd(t);
    await t.rejects(sshd.targets({ hostKeys: ['MD5:x'] }), {
      message: /^SSH_HOSTS_FILE: 0.hostKeys.0: must look like/,
    });
    await t.rejects(sshd.targets({ privateKeyFile: 'gone' }), { message: /private key of web cannot be read/ });
    await t.rejects(sshd.targets({ privateKeyFile: 'config' }), { message: /file of web has no private key/ });
    await t.rejects(sshd.targets({ user: undefined }), { message: /^SSH_HOSTS_FILE: 0.user/ });
  });
});

t.test('the SSH hooks', { skip: noSshd }, async (t) => {
  const { fixture, run, sshd, session } = await bench(t);
  /** Installs a plugin for one test: it is paused at its end. */
  const guard = async (
    t: Test,
    slug: string,
    code: string,
    options: { readonly capabilities?: string[]; readonly required?: boolean } = {},
  ): Promise<void> => {
    const idle = 'middleware.systemPrompt = () => undefined;';
    const { installationId } = await fixture.install({ slug, ...options, code: `${code}\n${idle}` });
    // A hook's budget may be too short for the first start on a busy machine.
    await eventually(async () => {
      const context = { systemPrompt: '', model: 'm' };
      const { body } = await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context });
      return body.trace.some(
        (step: { slug: string; outcome: string }) => step.slug === slug && step.outcome === 'unchanged',
      );
    });
    t.teardown(async () => {
      await fixture.pool.query(
        `UPDATE installations SET status = 'paused', updated_at = clock_timestamp() WHERE id = $1`,
        [installationId],
      );
      await fixture.notify(installationId);
    });
  };
  // The first two before there is a connection: it would hide what is sent.
  await t.test('that fail stop a command before anything is sent', async (t) => {
    await guard(t, 'failing-guard', `middleware.sshCommand = () => { throw new Error('x'); };`);
    t.match(await run('id'), /guard failed, so the operation was stopped/);
    t.equal(sshd.total(), 0);
  });
  await t.test('can veto it, and the transcript records that', async (t) => {
    await guard(
      t,
      'guard',
      `middleware.sshCommand = ({ command, cancel }) => { if (command.includes('rm')) cancel('no rm'); };
      middleware.sshCommandInput = ({ data, cancel }) => { if (data.includes('yes')) cancel('no yes'); };`,
    );
    t.match(await run('rm -rf /'), /guard cancelled the operation: no rm/);
    t.match(await run('cat', { input: 'yes\n' }), /guard cancelled the operation: no yes/);
    t.equal(sshd.total(), 0);
    t.equal((await run('echo fine')).stdout, 'fine\n');
    const transcript = await fixture.call('GET', `/sessions/${session}/messages`);
    t.match(JSON.stringify(transcript.body), /guard cancelled the operation: no rm/);
  });
  await t.test('change command, input and output', async (t) => {
    await guard(
      t,
      'changing',
      `middleware.sshCommand = ({ command, trigger }) => ({ command: command + '; echo "$WHO"', env: { WHO: 'guard of a ' + trigger } });
       middleware.sshCommandInput = ({ data }) => ({ data: data.toUpperCase() });
       middleware.sshCommandOutput = ({ stdout }) => ({ stdout: stdout.replaceAll('SECRET', '[redacted]') });`,
    );
    t.equal((await run('cat', { input: 'a secret\n' })).stdout, 'A [redacted]\nguard of a tool\n');
  });
  await t.test('that make the outputs too long for a result get them truncated', async (t) => {
    await guard(
      t,
      'chatty',
      `middleware.sshCommandOutput = () => ({ stdout: 'x'.repeat(600_000), stderr: 'x'.repeat(600_000) });`,
    );
    const arguments_ = { command: 'echo ran', brief: true };
    const { body } = await fixture.call('POST', `/sessions/${session}/tools/runner__run`, { arguments: arguments_ });
    t.equal(body.content[0].text, JSON.stringify([0, 300_000 + 13, 'xxxxxxx\n[truncated]\n']));
  });
  await t.test('that are required and fail after a command say that it ran', async (t) => {
    await guard(t, 'redactor', `middleware.sshCommandOutput = () => { throw new Error('x'); };`, { required: true });
    t.match(
      await run('echo ran'),
      /The command ran, but .* Check what it did before you run it again\. “redactor” failed/,
    );
  });
  await t.test('may run commands without running their own hooks', async (t) => {
    const asking = `middleware.sshCommand = async ({ host: { id }, command }) => {
      const { stdout } = await host.ssh.run(id, 'echo checked'); return { command: command + '; echo ' + stdout.trim() }; };`;
    await guard(t, 'asking', asking, { capabilities: ['host.ssh'] });
    t.equal((await run('echo first')).stdout, 'first\nchecked\n');
  });
  await t.test('of two plugins cannot call each other endlessly', async (t) => {
    const asking = `middleware.sshCommand = async ({ host: { id } }) => {
      try { await host.ssh.run(id, 'true'); } catch (error) { console.log('NESTED ' + error.message); } };`;
    await guard(t, 'one', asking, { capabilities: ['host.ssh'] });
    await guard(t, 'two', asking, { capabilities: ['host.ssh'] });
    t.equal((await run('echo done')).stdout, 'done\n');
    await fixture.supervisor.logs.flush();
    const { rows } = await fixture.pool.query(`SELECT message FROM plugin_logs WHERE message LIKE 'NESTED %'`);
    t.match(JSON.stringify(rows), /inside each other more than 3 deep/);
  });
});

const fewerGrants = ['fewer grants', `granted_capabilities = '{tools.run}'`] as const;
const uninstall = ['an uninstall', `status = 'uninstalling'`] as const;
for (const [name, what] of amount({ quick: [fewerGrants], soak: [fewerGrants, uninstall] }))
  t.test(`${name} while a command runs leaves no connection`, { skip: noSshd }, async (t) => {
    const { fixture, run, sshd, runner } = await bench(t);
    const result = run('while echo x; do sleep 0.05; done');
    await eventually(async () => fixture.supervisor.ssh.size === 1);
    await fixture.pool.query(`UPDATE installations SET ${what}, updated_at = clock_timestamp() WHERE id = $1`, [
      runner.installationId,
    ]);
    await notifyInstallationChanged(fixture.pool, runner.installationId);
    await result;
    await eventually(async () => sshd.open() === 0 && fixture.supervisor.ssh.size === 0);
  });

t.test('connections', { skip: noSshd }, async (t) => {
  await t.test('are bounded per installation, and close when it changes', async (t) => {
    const bounds = { total: 10, perInstallation: 2, idleMs: 60_000 };
    const { run, fixture, sshd, runner } = await bench(t, [{}], { sshBounds: bounds });
    const done = join(sshd.folder, 'done');
    const two = [1, 2].map(() => run(`until [ -e ${done} ]; do sleep 0.1; done`));
    await eventually(async () => fixture.supervisor.ssh.size === 2);
    t.match(await run('id'), /2 SSH commands are running already/);
    writeFileSync(done, '');
    t.match(await Promise.all(two), [{ exitCode: 0 }, { exitCode: 0 }]);
    t.equal(sshd.open(), 2);
    await notifyInstallationChanged(fixture.pool, runner.installationId);
    await eventually(async () => sshd.open() === 0);
  });
  await t.test('close when they are idle', async (t) => {
    const { run, sshd } = await bench(t, [{}], { sshBounds: { total: 10, perInstallation: 2, idleMs: 50 } });
    t.equal((await run('echo x')).stdout, 'x\n');
    await eventually(async () => sshd.open() === 0);
  });
});
