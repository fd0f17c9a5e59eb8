/** Changes during a chain: every link is taken from the account's plugins as they are then. */
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import type { LinkResult } from '../../../supervisor/calls/chain.ts';
import { runChain } from '../../../supervisor/calls/chain-runner.ts';
import { indexAccountPlugins } from '../../../supervisor/children/account-plugins-cache.ts';
import { unrecorded } from './unrecorded.ts';

const HOOK = 'middleware.systemPrompt';

type Change = Partial<Record<keyof InstalledPlugin, unknown>>;
const plugin = (slug: string, change: Change = {}): InstalledPlugin =>
  ({
    installationId: `i-${slug}`,
    slug,
    displayName: slug.toUpperCase(),
    semVer: '1.0.0',
    status: 'ready',
    blockedReason: null,
    required: false,
    settings: {},
    registrations: { hooks: [HOOK], tools: {} },
    ...change,
  }) as unknown as InstalledPlugin;

/** Runs a chain over `before`; during the first link's call the account becomes `after`. */
async function run(
  before: readonly InstalledPlugin[],
  after: readonly InstalledPlugin[],
  results: Readonly<Record<string, LinkResult | ((context: Readonly<Record<string, unknown>>) => LinkResult)>> = {},
) {
  let plugins = indexAccountPlugins(before);
  const called: InstalledPlugin[] = [];
  const contexts: Readonly<Record<string, unknown>>[] = [];
  const invoker = {
    invoke: async (asked: InstalledPlugin, { context }: { context: Readonly<Record<string, unknown>> }) => {
      if (called.length === 0) plugins = indexAccountPlugins(after);
      called.push(asked);
      contexts.push(context);
      const result = results[asked.slug];
      if (typeof result === 'function') return result(context);
      return result ?? ({ kind: 'answered', answer: `${context.systemPrompt} ${asked.slug}` } as const);
    },
  };
  const state = await runChain(
    { invoker: invoker as never, ...unrecorded },
    {
      hook: HOOK,
      session: null,
      trigger: 'user',
      context: { systemPrompt: '>', model: 'm' },
      loadPlugins: () => plugins,
    },
  );
  return { state, called, contexts };
}

const [a, b] = [plugin('a'), plugin('b')];
const FAILED: LinkResult = { kind: 'error', message: 'it was ended by SIGKILL' };

t.test('nothing changes: both run', async (t) => {
  t.equal((await run([a, b], [a, b])).state.context.systemPrompt, '> a b');
});

for (const required of [false, true]) {
  const next = plugin('b', { required });
  t.test(`uninstalled before its turn, required ${required}: it does not run`, async (t) => {
    const { state } = await run([a, next], [a]);
    t.match(state, { cancelled: null, context: { systemPrompt: '> a' } });
    t.match(state.trace, [{ slug: 'a' }]);
    t.equal(state.trace.length, 1);
  });

  t.test(`paused before its turn, required ${required}: it does not run`, async (t) => {
    const { state } = await run([a, next], [a, { ...next, status: 'paused' }]);
    t.match(state, { cancelled: null, context: { systemPrompt: '> a' } });
    t.equal(state.trace.length, 1);
  });
}

t.test('reconfigured, updated: the present settings and version are called', async (t) => {
  const changed = { ...b, settings: { mode: 'strict' }, semVer: '2.0.0' };
  const { called } = await run([a, b], [a, changed]);
  t.match(called[1], { settings: { mode: 'strict' }, semVer: '2.0.0' });
});

t.test('updated to a version without the hook: it does not run', async (t) => {
  const { state } = await run([a, b], [a, { ...b, registrations: { ...b.registrations, hooks: [] } }]);
  t.equal(state.context.systemPrompt, '> a');
});

t.test('installed, resumed or moved to the front meanwhile: it runs, and nothing runs twice', async (t) => {
  t.equal((await run([a], [a, b])).state.context.systemPrompt, '> a b');
  t.equal((await run([a, { ...b, status: 'paused' }], [a, b])).state.context.systemPrompt, '> a b');
  t.equal((await run([a, b], [b, a])).state.context.systemPrompt, '> a b');
});

t.test('blocked before its turn: skipped, or the operation stops with the operator’s reason', async (t) => {
  const blocked = { ...b, blockedReason: 'the operator blocked this plugin: it phones home' };
  t.match((await run([a, b], [a, blocked])).state, {
    cancelled: null,
    trace: [{}, { slug: 'b', required: false, outcome: 'skipped_unavailable', reason: /it phones home/ }],
  });
  t.match((await run([a, b], [a, { ...blocked, required: true }])).state, {
    cancelled: { by: { slug: 'b' }, reason: /“B” could not run.*operator blocked this plugin: it phones home/ },
    trace: [{}, { slug: 'b', required: true, outcome: 'vetoed_unavailable' }],
  });
});

t.test('configuration lost before its turn: not a link, or the operation stops', async (t) => {
  const lost: InstalledPlugin = { ...b, status: 'needs_configuration' };
  t.equal((await run([a, b], [a, lost])).state.trace.length, 1);
  t.match((await run([a, b], [a, { ...lost, required: true }])).state, {
    cancelled: { by: { slug: 'b' }, reason: /a setting or secret that it requires is missing/ },
  });
});

t.test('a link that fails counts as its installation is by then', async (t) => {
  const guard = plugin('a', { required: true });
  const fails = { a: FAILED };
  t.match((await run([guard, b], [guard, b], fails)).state.cancelled, { by: { slug: 'a' }, reason: /SIGKILL/ });
  t.match((await run([a, b], [guard, b], fails)).state.cancelled, { by: { slug: 'a' } }, 'required meanwhile');
  t.match((await run([guard, b], [a, b], fails)).state, { cancelled: null, context: { systemPrompt: '> b' } });
  t.match((await run([guard, b], [{ ...guard, status: 'paused' }, b], fails)).state.cancelled, null, 'paused');
  t.match((await run([guard, b], [b], fails)).state, { cancelled: null, trace: [{ outcome: 'skipped_error' }, {}] });
  t.match(
    (await run([guard, b], [{ ...guard, blockedReason: 'the operator blocked this plugin: it phones home' }, b], fails))
      .state.cancelled,
    {
      reason: /the operator blocked this plugin: it phones home/,
    },
  );
});

t.test('a required plugin is asked once more where another changed the context after it', async (t) => {
  const guard = plugin('guard', { required: true });
  const { state, called, contexts } = await run([guard, a, b], [guard, a, b]);
  t.same(
    called.map(({ slug }) => slug),
    ['guard', 'a', 'b', 'guard'],
  );
  t.match(contexts[3], { systemPrompt: '> guard a b', repeated: true });
  t.same(
    contexts.map((context) => 'repeated' in context),
    [false, false, false, true],
  );
  t.match(state, { cancelled: null, context: { systemPrompt: '> guard a b guard' } });
});

t.test('what another added after a required plugin is cancelled by it', async (t) => {
  const guard = plugin('guard', { required: true });
  const refuse = ({ repeated }: Readonly<Record<string, unknown>>): LinkResult =>
    repeated ? FAILED : { kind: 'answered', answer: undefined };
  const { state } = await run([guard, a], [guard, a], { guard: refuse });
  t.match(state, { cancelled: { by: { slug: 'guard' } } });
  t.match(
    state.trace.map(({ outcome }) => outcome),
    ['unchanged', 'changed', 'vetoed_error'],
  );
});

t.test(
  'a required plugin is asked again about what a required one before it changed when that was asked again',
  async (t) => {
    const [guard, audit] = [plugin('guard', { required: true }), plugin('audit', { required: true })];
    const { called, contexts } = await run([guard, a, audit], [guard, a, audit]);
    t.same(
      called.map(({ slug }) => slug),
      ['guard', 'a', 'audit', 'guard', 'audit'],
    );
    t.equal(contexts[4]?.systemPrompt, '> guard a audit guard');
  },
);

t.test('required plugins that all change the context are asked once', async (t) => {
  const both = [plugin('a', { required: true }), plugin('b', { required: true })];
  t.equal((await run(both, both)).state.context.systemPrompt, '> a b');
});

t.test('a plugin that became required after it was asked is asked about what others changed since', async (t) => {
  const { called } = await run([a, b], [plugin('a', { required: true }), b]);
  t.same(
    called.map(({ slug }) => slug),
    ['a', 'b', 'a'],
  );
});
