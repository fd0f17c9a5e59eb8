/** Every hook of the protocol through the session API: context, patch, veto and failure are what its row says. */
import t from 'tap';
import type { HookName } from '../../../sdk/contract/protocol.ts';
import { hooks } from '../../../sdk/contract/protocol.ts';
import type { HookRow } from '../../../sdk/contract/rows.ts';
import { amount } from '../../runner/soak.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const rows = (Object.entries(hooks) as [HookName, HookRow][]).filter(([name]) => name.startsWith('middleware.'));
/** The agent's name says what the handler does, so that one child serves every case. */
const code = rows
  .map(
    ([name, { example }]) => `${name} = (ctx) => {
      const mode = ctx.agent.name;
      const { signal, cancel, ...fields } = ctx;
      if (mode === 'look') host.log('seen', { ...fields, aborted: signal.aborted });
      if (mode === 'example') return ${JSON.stringify(example.answer) ?? 'undefined'};
      if (mode === 'cancel') ctx.cancel('because');
      if (mode === 'caught') { try { ctx.cancel('because'); } catch {} return ${JSON.stringify(example.answer) ?? 'undefined'}; }
      if (mode === 'wordless') ctx.cancel();
      if (mode === 'wordy') ctx.cancel('x'.repeat(1000));
      if (mode === 'throw') throw new Error('broken');
      if (mode === 'number') return 7;
      if (mode.startsWith('{')) return JSON.parse(mode);
    };`,
  )
  .join('\n');

const fixture = await startSupervisorFixture(t);
const plugin = await fixture.install({ slug: 'rows', code, settings: { tone: 'kind' } });
async function run(name: HookName, mode: string, context: unknown = hooks[name].example.context) {
  const session = await fixture.call('POST', '/sessions', { agentId: 'a1', agentName: mode });
  const path = `/sessions/${session.body.id}/hooks/${name.slice('middleware.'.length)}`;
  const answer = await fixture.call('POST', path, { context, trigger: 'tool' });
  return { session: session.body.id as string, ...answer };
}

/** The example's answer laid over its context, as far as rows nest. */
function patched(context: unknown, answer: unknown, row: HookRow): unknown {
  if (answer === undefined) return context;
  if (row.answers.kind === 'replace') return { ...(context as object), [row.answers.field]: answer };
  const { patchable } = row.answers;
  const before = context as Record<string, object>;
  const merged = Object.entries(answer as object).map(([key, value]) => [
    key,
    patchable.includes(key) ? value : { ...before[key], ...value },
  ]);
  return { ...before, ...Object.fromEntries(merged) };
}

/** A patch for each field that may only be read. */
function forbidden({ context: schema, answers, example }: HookRow): string[] {
  if (answers.kind === 'replace') return [];
  const { patchable } = answers;
  const context = example.context as Record<string, unknown>;
  return Object.keys(schema.shape).flatMap((key) => {
    if (patchable.includes(key)) return [];
    const value = context[key];
    const isGroup = patchable.some((path) => path.startsWith(`${key}.`));
    if (!isGroup || typeof value !== 'object' || value === null) return [JSON.stringify({ [key]: 'changed' })];
    const closed = Object.keys(value).filter((field) => !patchable.includes(`${key}.${field}`));
    return [...closed, 'unknown'].map((field) => JSON.stringify({ [key]: { [field]: 'changed' } }));
  });
}

/** How a handler cancels. In the quick run, child.test.ts has the others, which are the same for each hook. */
const VETOES = amount({ quick: ['cancel'], soak: ['cancel', 'caught', 'wordless', 'wordy'] });

// The start of its process counts against the budget of the first hook.
await run('middleware.systemPrompt', 'nothing');

for (const [name, row] of rows) {
  t.test(name, async (t) => {
    const { context, answer } = row.example;
    const seen = await run(name, 'look');
    t.match(seen.body, { action: 'continue', reason: null, cancelledBy: null, trace: [{ outcome: 'unchanged' }] });
    t.strictSame(seen.body.context, context, 'returning nothing changes nothing');
    await fixture.supervisor.logs.flush();
    const found = await fixture.pool.query('SELECT data FROM plugin_logs WHERE session_id = $1', [seen.session]);
    const { data } = found.rows[0];
    const base = { hook: name, settings: { tone: 'kind' }, agent: { id: 'a1', name: 'look' }, trigger: 'tool' };
    t.match(data, { ...base, session: { id: seen.session, channelId: null }, aborted: false, ...(context as object) });
    const late = row.budgetMs - (Date.parse(data.deadlineAt) - Date.parse(data.at));
    t.ok(late >= 0 && late < 1_000, `the budget of its row but ${late} ms`);

    const example = await run(name, 'example');
    t.strictSame(example.body.context, patched(context, answer, row), 'its example');
    for (const mode of [...forbidden(row), 'number', '{"unknown":1}']) {
      const refused = await run(name, mode);
      t.match(refused.body.trace, [{ outcome: row.onFailure === 'cancel' ? 'vetoed_error' : 'skipped_error' }], mode);
      t.strictSame(refused.body.context, context, `${mode} changes nothing`);
    }
    const thrown = await run(name, 'throw');
    t.equal(thrown.body.action, row.onFailure === 'cancel' ? 'cancel' : 'continue', 'a handler that throws');
    t.equal((await run(name, 'example', { nonsense: true })).status, 400, 'a context that is none');
  });

  t.test(`${name}: veto`, async (t) => {
    for (const mode of VETOES) {
      const { body, session } = await run(name, mode);
      if (!row.cancellable) {
        t.match(body, { action: 'continue', trace: [{ outcome: 'skipped_error' }] }, mode);
        continue;
      }
      const reason = mode === 'wordless' ? /.+/ : mode === 'wordy' ? 'x'.repeat(500) : 'because';
      t.match(body, { action: 'cancel', reason, cancelledBy: 'rows', trace: [{ outcome: 'cancelled' }] }, mode);
      t.strictSame(body.context, row.example.context, 'what is cancelled is not changed');
      const transcript = await fixture.call('GET', `/sessions/${session}/messages`);
      t.match(transcript.body.items, [{ role: 'notice', data: { kind: 'cancelled', hook: name, plugin: 'rows' } }]);
    }
  });
}

t.test('skips, vetoes and failures are in the plugin’s log as system lines', async (t) => {
  await fixture.supervisor.logs.flush();
  const { rows: lines } = await fixture.pool.query(
    "SELECT level, message, session_id FROM plugin_logs WHERE installation_id = $1 AND source = 'system'",
    [plugin.installationId],
  );
  const logged = lines.map(({ level, message }) => `${level} ${message}`);
  for (const [name, row] of rows) {
    const outcome = row.onFailure === 'cancel' ? 'vetoed_error' : 'skipped_error';
    t.ok(logged.includes(`error ${name} (${outcome}): broken`), `${name} failed`);
    const veto = row.cancellable
      ? `info ${name} cancelled: because`
      : `error ${name} (skipped_error): ${name} cannot cancel`;
    t.ok(logged.includes(veto), `${name} cancelled`);
  }
  t.ok(lines.every(({ session_id }) => session_id !== null));
});
