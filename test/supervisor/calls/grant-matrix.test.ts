/**
 * Generated from the rows: every host call × declared or not × about one's own things or another account's. A call that is not
 * declared is absent in the child and refused when the wire is forged; another's things are as if there were none.
 */
import { randomUUIDv7 } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stop } from 'esbuild';
import t, { type Test } from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { findSession } from '../../../db/sessions/sessions.ts';
import { buildChild } from '../../../sandbox-child/build-child.ts';
import { type HostCallName, hostCalls } from '../../../sdk/contract/protocol.ts';
import type { HostRow } from '../../../sdk/contract/rows.ts';
import { openSandbox } from '../../../supervisor/jail/sandbox.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { isSoak, listCases } from '../../runner/soak.ts';
import { noSshd } from '../host/sshd.ts';
import { type Answer, argumentsAbout, calls, type MatrixFixture, openMatrix, type Things } from './grant-cases.ts';

const rowOf = (member: HostCallName): HostRow => hostCalls[member];
/** More than all calls of the matrix take. Milliseconds. */
const HELD_MS = 600_000;
/** An invocation of Bob's that is running while Ann's plugin names it. */
const BOBS_INVOCATION = randomUUIDv7();

async function forgers() {
  const program = await buildChild(fileURLToPath(new URL('forging-child.ts', import.meta.url)));
  await stop();
  return openSandbox({ mode: 'auto', directory: join(await temporaryFolder(t), 'forged'), program });
}

/** A reply with the names of things and what is new each time taken out. */
const shape = (answer: Answer, about: Things): string =>
  Object.entries(about)
    .reduce((text, [name, value]) => text.replaceAll(value, `<${name}>`), JSON.stringify(answer))
    .replaceAll(/[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<new>')
    .replaceAll(/(not|bob)(-folder|-data|\.test)/g, '<who>$2');

/** Whether an answer has nothing of Bob's except what Ann's plugin sent itself. */
function holdsNothingOf(bob: Things, answer: Answer, args: readonly unknown[]): boolean {
  const argsText = JSON.stringify(args);
  const text = JSON.stringify(answer);
  return Object.values(bob).every((value) => argsText.includes(value) || !text.includes(value));
}

async function declaredCells(t: Test, matrix: MatrixFixture, isForged: boolean): Promise<void> {
  const { ann, bob, nobody, runIn } = matrix;
  for (const member of calls) {
    const about = argumentsAbout[member];
    // In a quick run the real child makes calls about its own account, and the forged wire about another one, with one call as a control.
    if (!isForged || isSoak() || member === 'storage.get') {
      const own = await runIn('all', { member, args: about(ann) });
      if (member !== 'ssh.run' || !noSshd) t.match(own, { ok: true }, `${member}: own`);
      t.ok(holdsNothingOf(bob, own, about(ann)), `${member}: own answer holds nothing of another account`);
    }
    if (!isForged && !isSoak()) continue;
    // Whose session it is, is not said in the arguments: only a forger can name another's.
    const invocations = rowOf(member).capability === 'session' && isForged;
    const theirs = { member, args: about(bob), ...(invocations ? { invocationId: BOBS_INVOCATION } : {}) };
    const none = { member, args: about(nobody), ...(invocations ? { invocationId: 'nobodys' } : {}) };
    const [toTheirs, toNone] = [await runIn('all', theirs), await runIn('all', none)];
    t.equal(shape(toTheirs, bob), shape(toNone, nobody), `${member}: another account’s is as if there were none`);
    t.ok(holdsNothingOf(bob, toTheirs, about(bob)), `${member}: the answer holds nothing of another account`);
    if (invocations) t.match(toTheirs, { ok: false, message: /only in a handler/ }, `${member}: no session`);
  }
}

/** Bob still has it all, as he made it. */
async function intact(t: Test, { fixture, bob, runIn }: MatrixFixture): Promise<void> {
  const { canary } = bob;
  const tryMember = async (member: HostCallName) =>
    JSON.stringify(await runIn('bobs', { member, args: argumentsAbout[member](bob) }));
  t.match(await tryMember('media.get'), `"content":"${canary}"`);
  t.match(await tryMember('secrets.get'), '"value":"[secret bobKey]"', 'read, and masked in the answer');
  for (const member of ['storage.get', 'workspace.readText'] as const)
    t.equal(await tryMember(member), JSON.stringify({ ok: true, value: canary }), `${member} of Bob’s`);
  t.match(await tryMember('agents.list'), `"name":"${canary}","instructions":""`);
  const posted = 'SELECT 1 FROM session_messages m JOIN accounts a ON a.id = m.account_id WHERE a.name = $1';
  t.equal((await fixture.pool.query(posted, ['bob'])).rowCount, 0, 'nothing was posted to Bob’s');
}

t.test('in a real child', async (t) => {
  const matrix = await openMatrix(t);
  await t.test('undeclared members are absent', async (t) => {
    for (const slug of ['none', 'reads']) {
      const absent = await matrix.runIn(slug, { absentOf: calls });
      const isThere = ({ capability, readable }: HostRow) =>
        capability === null || (slug === 'reads' && readable && capability !== 'http');
      const wanted = calls.filter((member) => !isThere(rowOf(member)));
      t.same(absent, { ok: true, value: wanted }, slug);
    }
  });
  await t.test('what is declared reaches what is the account’s', (t) => declaredCells(t, matrix, false));
  await t.test('and nothing else', (t) => intact(t, matrix));
});

t.test('with a forged wire', async (t) => {
  const matrix = await openMatrix(t, await forgers());
  const { fixture, ann, bob, runIn } = matrix;
  await t.test('undeclared calls are denied', async (t) => {
    for (const member of calls) {
      const row = rowOf(member);
      for (const [slug, isGranted] of [
        ['none', row.capability === null],
        ['reads', row.capability === null || row.readable],
      ] as const)
        for (const [whose, things] of listCases({ own: ann, another: bob }, 'own')) {
          if (isGranted) continue;
          const answer = await runIn(slug, { member, args: argumentsAbout[member](things) });
          const refusal = { ok: false, code: 'denied', message: `host.${member} is not granted` };
          t.same(answer, refusal, `${slug}: ${member} of ${whose}`);
        }
    }
    for (const member of ['agents', 'agents.', 'agents.toString', '__proto__', 'constructor', 'host.agents.list'])
      t.match(await runIn('all', { member, args: [] }), { code: 'denied', message: 'there is no such host call' });
  });
  await t.test('what is declared reaches what is the account’s', async (t) => {
    const { plugins } = await fixture.supervisor.pluginsCache.get((await findOrCreateAccount(fixture.pool, 'bob')).id);
    const plugin = plugins.find(({ installationId }) => installationId === matrix.bobsInstallation);
    if (!plugin) throw new Error('Bob’s plugin is gone');
    const session = await findSession(fixture.pool, await fixture.session('bob'));
    const running = fixture.supervisor.fleet.invoke(plugin, {
      target: { kind: 'tools', name: 'run' },
      invocationId: BOBS_INVOCATION,
      session,
      deadlineAt: Date.now() + HELD_MS,
      context: { arguments: { hold: true } },
    });
    await declaredCells(t, matrix, true);
    await runIn('bobs', { release: true });
    t.match(await running, { kind: 'answered' }, 'it ran all the time');
  });
  await t.test('and nothing else', (t) => intact(t, matrix));
  await t.test('every refusal is in the audit', async (t) => {
    await fixture.supervisor.audit.flush();
    const { rows } = await fixture.pool.query(`SELECT DISTINCT member FROM audit WHERE outcome = 'denied'`);
    const refused = new Set(rows.map(({ member }) => member));
    const gated = calls.filter((member) => rowOf(member).capability !== null);
    t.same(
      gated.filter((member) => !refused.has(member)),
      [],
    );
  });
});
