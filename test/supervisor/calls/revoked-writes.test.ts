/** A write that runs when the plugin's grant or installation is removed has no effect: no row, no file, nothing left open. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { WORKSPACE_STAGING } from '../../../db/files/data-dir.ts';
import { eventually } from '../../runner/eventually.ts';
import { openFiles } from '../../runner/open-ends.ts';
import { listCases } from '../../runner/soak.ts';
import { asCommand, runCommand, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);
const CODE = asCommand(`
  const [group, name] = args.member.split('.');
  const said = (call) => call.then(() => 'done', ({ code, message }) => code + ': ' + message);
  if (!args.many) return said(host[group][name](...args.given));
  // So long that their output is limited to some of them a second.
  const big = 'x'.repeat(300_000);
  return Promise.all(Array.from({ length: args.many }, (_, n) => said(host.workspace.write('folder' + n + '/file.txt', big))));`);
const CAPABILITIES = ['host.storage', 'host.media', 'host.workspace', 'host.agents', 'host.session'];
// Calls that were waiting in the child arrive when the child is gone.
const REFUSED = /^denied: .* is not granted( any more)?$/;

const ends: Readonly<Record<string, string>> = {
  'fewer grants': `granted_capabilities = '{commands.run}'`,
  'a pause': `status = 'paused'`,
  'an uninstall': `status = 'uninstalling'`,
};

/** Whether a statement with this text waits for a lock. Removals of earlier tests and the supervisor's own reads may wait as well. */
const waits = async (fixture: SupervisorFixture, text: string): Promise<boolean> =>
  (
    await fixture.pool.query(
      `SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0`,
      [text],
    )
  ).rows.length > 0;

/** Keeps everybody out of the table until the answer is called. */
async function lock(t: Test, fixture: SupervisorFixture, table: string): Promise<() => Promise<void>> {
  const holder = await fixture.pool.connect();
  let held = true;
  const unlock = async () => {
    if (!held) return;
    held = false;
    await holder.query('ROLLBACK');
    holder.release();
  };
  t.teardown(unlock);
  await holder.query('BEGIN');
  await holder.query(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
  return unlock;
}

/** `statement`: the text by which the call's first statement on the table is known. */
const rowWrites: Readonly<Record<string, { table: string; statement: string; member: string; given: unknown }>> = {
  'a stored value': {
    table: 'installation_storage',
    statement: 'AS keys',
    member: 'storage.set',
    given: ['key', 'value'],
  },
  'a media file': { table: 'media', statement: 'AS files', member: 'media.put', given: 'bytes' },
  'an agent': {
    table: 'agents',
    statement: 'FROM agents WHERE account_id = $1 AND id <> $2',
    member: 'agents.create',
    given: [{ name: 'Ann' }],
  },
  'a message': {
    table: 'session_messages',
    statement: 'INSERT INTO session_messages',
    member: 'session.post',
    given: ['hello'],
  },
  // Of the session in which the command runs.
  'a message to an agent': {
    table: 'session_messages',
    statement: 'INSERT INTO session_messages',
    member: 'agents.send',
    given: ['agent-1', 'hello'],
  },
};
for (const [name, what] of listCases(ends, 'fewer grants', 'an uninstall'))
  for (const [thing, { table, statement, member, given }] of name === 'fewer grants'
    ? Object.entries(rowWrites)
    : listCases(rowWrites, 'a stored value'))
    t.test(`${name}: ${thing} that waits for the database`, async (t) => {
      const fixture = shared.withNewAccount();
      const code = given === 'bytes' ? CODE.replace('...args.given', 'new Uint8Array([104, 105])') : CODE;
      const made = await fixture.install({ capabilities: CAPABILITIES, code });
      const unlock = await lock(t, fixture, table);
      const result = runCommand(fixture, made.slug, { member, given });
      await eventually(() => waits(fixture, statement));
      await fixture.change(made, what);
      t.match(await result, REFUSED);
      await unlock();
      await eventually(async () => !(await waits(fixture, statement)));
      // The waiting call has ended when a later one gets the lock.
      await (await lock(t, fixture, table))();
      t.equal((await fixture.pool.query(`SELECT 1 FROM ${table}`)).rowCount, 0);
    });

const MANY = 60;
const namesIn = (folder: string) => readdir(folder).catch((): string[] => []);

for (const [name, what] of listCases(ends, 'fewer grants'))
  t.test(`${name}: files of the workspace, one after the other`, async (t) => {
    const fixture = shared.withNewAccount();
    const made = await fixture.install({ capabilities: CAPABILITIES, code: CODE });
    const folder = join(fixture.dataDir, 'workspaces', made.accountId);
    const written = async () => (await namesIn(folder)).length;
    t.equal(
      await runCommand(fixture, made.slug, { member: 'workspace.write', given: ['first/file.txt', 'x'] }),
      'done',
    );
    const before = await openFiles();
    const result = runCommand(fixture, made.slug, { member: 'workspace.write', many: MANY });
    await eventually(async () => (await written()) > 2);
    await fixture.change(made, what);
    const answers: string[] = await result;
    const done = answers.filter((answer) => answer === 'done').length;
    t.ok(done < MANY, `${done} of ${MANY} were written before`);
    t.ok(answers.every((answer) => answer === 'done' || REFUSED.test(answer)));
    // At rest: the turns that were waiting have seen that they are not wanted.
    await eventually(async () => (await openFiles()) <= before);
    t.same(await namesIn(join(fixture.dataDir, WORKSPACE_STAGING)), [], 'nothing half written');
    // One may have been given its name at that very moment.
    const found = await written();
    t.ok(found <= 1 + done + 1, `${found} folders for ${done} files and the first`);
  });
