/** Generated from the rows: the example of every event, summary and host call passes through a real child unchanged. */
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { recordEvent } from '../../../db/installations/events.ts';
import { hostExamples, listExampleArguments } from '../../../sdk/contract/host-examples.ts';
import {
  type EventName,
  eventEnvelope,
  events,
  type HostCallName,
  hooks,
  hostCalls,
} from '../../../sdk/contract/protocol.ts';
import type { HostRow } from '../../../sdk/contract/rows.ts';
import type { HostCall } from '../../../supervisor/children/child.ts';
import { eventually } from '../../runner/eventually.ts';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../children/jailed-child.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);
const names = Object.keys(hostCalls) as HostCallName[];

t.test('host calls', async (t) => {
  for (const name of names) {
    const row: HostRow = hostCalls[name];
    const { args, result } = hostExamples[name];
    t.same(
      Object.keys(args).filter((key) => !Object.hasOwn(row.params, key)),
      [],
      `${name} takes what it is given`,
    );
    t.ok(row.result.safeParse(result).success, `${name} answers what its row says`);
  }
  const calls: HostCall[] = [];
  const child = testChild(t, await testJail(t), {
    onHostCall: async (call) => {
      calls.push(call);
      return hostExamples[call.member as HostCallName].result;
    },
  });
  await child.load(
    bundleOf(toolOf('const [group, name] = args.member.split("."); return host[group][name](...args.args);'), {
      members: names,
    }),
  );
  for (const name of names) {
    const args = listExampleArguments(name);
    const outcome = await callTool(child, 'run', { member: name, args });
    // The wire carries no undefined: an object without the field says the same.
    t.same(outcome, { outcome: 'answered', answer: hostExamples[name].result }, `${name} answers its example`);
    const call = calls.pop();
    t.equal(call?.member, name);
    t.match(call?.invocationId, /^call-/, `${name} is called for the running handler`);
    t.ok(isDeepStrictEqual(call?.args, args), `${name} arrives as it was called`);
  }
});

t.test('events', async (t) => {
  const fixture = shared.withNewAccount();
  const rows = Object.entries(events) as [EventName, (typeof events)[EventName]][];
  const code = rows.map(
    ([name]) => `events.${name} = ({ signal, ...event }) => host.log(signal.aborted + ' ' + event.cancel, event);`,
  );
  const made = await fixture.install({ slug: 'told', code: code.join('\n') });
  const { installationId, accountId, pluginId, versionId } = made;
  for (const [type, row] of rows) {
    const base = { installationId, accountId, pluginId, versionId, semVer: '1.0.0' };
    await recordEvent(fixture.pool, fixture.supervisor.queues, { ...base, type, data: row.example as never });
  }
  const lines = await eventually(async () => {
    await fixture.supervisor.logs.flush();
    const found = await fixture.pool.query('SELECT message, data FROM plugin_logs WHERE installation_id = $1', [
      installationId,
    ]);
    return found.rows.length === rows.length && found.rows;
  });
  for (const [type, row] of rows) {
    const line = lines.find(({ data }: { data: { type: string } }) => data.type === type);
    t.equal(line?.message, 'false undefined', `${type} has a signal and no cancel`);
    t.strictSame(Object.keys(line.data).sort(), Object.keys(eventEnvelope.shape).sort(), `${type} has its envelope`);
    t.match(line.data, { type, attempt: 1, installationId, pluginId, versionId, semVer: '1.0.0' });
    t.strictSame(line.data.data, row.example, `${type} carries its data`);
  }
});

t.test('compaction', async (t) => {
  const fixture = shared.withNewAccount();
  const { context, answer } = hooks['compaction.summarize'].example;
  const made = await fixture.install({
    slug: 'short',
    code: `compaction.summarize = ({ signal, cancel, ...ctx }) => { host.log('seen', ctx); return ${JSON.stringify(answer)}; };`,
  });
  const session = await fixture.session();
  const { messages, focus } = context;
  const { body } = await fixture.call('POST', `/sessions/${session}/compaction`, { messages, focus });
  const { trace, ...result } = body;
  const ran = { action: 'continue', reason: null, cancelledBy: null };
  t.strictSame(result, { ...ran, summary: answer, source: 'plugin', notice: null });
  t.match(trace, [{ slug: 'short', required: false, outcome: 'changed' }]);
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query('SELECT data FROM plugin_logs WHERE installation_id = $1', [
    made.installationId,
  ]);
  t.match(rows[0]?.data, { ...context, hook: 'compaction.summarize', session: { id: session } });
});
