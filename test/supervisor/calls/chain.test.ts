/** Chain folding, without a child: patches, cancels, failure rules, and properties that hold for any links. */
import fc from 'fast-check';
import t from 'tap';
import { type HookName, hookBase, hooks } from '../../../sdk/contract/protocol.ts';
import type { HookRow } from '../../../sdk/contract/rows.ts';
import {
  type ChainState,
  type Fields,
  foldLink,
  type LinkResult,
  linkOutcomes,
  startChain,
} from '../../../supervisor/calls/chain.ts';
import { ChainTime } from '../../../supervisor/calls/chain-time.ts';
import { callSurface } from '../../../supervisor/calls/surface-call.ts';
import { amount, seed } from '../../runner/soak.ts';

const link = { installationId: 'i1', slug: 'one', displayName: 'Guard One', required: false };
const required = { ...link, required: true };
const fold = (hook: HookName, context: Fields, result: LinkResult) =>
  foldLink(hook, startChain(context), link, result, 1);
const answer = (value: unknown): LinkResult => ({ kind: 'answered', answer: value });

t.test('every row’s example is a valid answer to its context', async (t) => {
  for (const [name, row] of Object.entries(hooks)) {
    const { state, fault } = fold(name as HookName, row.example.context, answer(row.example.answer));
    t.equal(fault, null, name);
    t.equal(state.trace[0]?.outcome, row.example.answer === undefined ? 'unchanged' : 'changed', name);
  }
});

t.test('only patchable paths change', async (t) => {
  const context = { message: { id: 'm', from: 'a', text: 'x', attachments: [] } };
  const send = (value: unknown) => fold('middleware.inboundMessage', context, answer(value));
  t.same(send({ message: { text: 'y' } }).state.context, {
    message: { id: 'm', from: 'a', text: 'y', attachments: [] },
  });
  t.equal(send({ message: { ...context.message, text: 'y' } }).fault, null, 'the rest may be repeated');
  t.equal(send({}).state.trace[0]?.outcome, 'unchanged');
  t.equal(send({ message: context.message }).state.trace[0]?.outcome, 'unchanged');
  t.equal(send({ message: { text: undefined } }).state.trace[0]?.outcome, 'unchanged');
  for (const bad of [
    { message: { id: 'other' } },
    { message: { text: 3 } },
    { message: { more: 1 } },
    { message: null },
    { message: [] },
    { other: 1 },
    { message: { attachments: [{}] } },
    JSON.parse('{"__proto__": {"x": 1}}'),
    JSON.parse('{"message": {"__proto__": {"x": 1}}}'),
    { constructor: 1 },
    'text',
    7,
    [],
  ]) {
    const { state, fault } = send(bad);
    t.equal(state.trace[0]?.outcome, 'skipped_error', JSON.stringify(bad));
    t.ok(fault);
    t.equal(state.context, context, 'nothing changed');
  }
});

t.test('a refused field is named as it is, and cut', async (t) => {
  const context = { message: { id: 'm', from: 'a', text: 'x', attachments: [] } };
  const explain = (value: unknown) => fold('middleware.inboundMessage', context, answer(value)).fault;
  t.equal(explain({ "$&$'%": 1 }), "middleware.inboundMessage: $&$'% cannot be changed");
  t.equal(explain({ message: { more: 1 } }), 'middleware.inboundMessage: message.more cannot be changed');
  t.equal(
    explain({ message: { txt: 'x' } }),
    'middleware.inboundMessage: message.txt cannot be changed; did you mean message.text?',
  );
  t.equal(
    explain({ cancel: 'no' }),
    'middleware.inboundMessage: cancel cannot be changed; to cancel the operation, call ctx.cancel(reason)',
  );
  t.match(explain({ message: { text: 3 } }), /^middleware\.inboundMessage: message\.text /);
  const long = 'x'.repeat(100_000);
  t.equal(explain({ [long]: 1 }), `middleware.inboundMessage: ${'x'.repeat(100)} cannot be changed`);
  t.equal(
    explain({ message: { [long]: 1 } }),
    `middleware.inboundMessage: message.${'x'.repeat(100)} cannot be changed`,
  );
});

t.test('a patch may repeat the whole context, with what the chain and the child add to it', async (t) => {
  for (const [name, row] of Object.entries(hooks) as [HookName, HookRow][]) {
    if (row.answers.kind !== 'patch') continue;
    const added = Object.fromEntries([...Object.keys(hookBase.shape), 'signal'].map((key) => [key, { added: true }]));
    t.notOk(
      Object.keys(added).find((key) => key in row.context.shape),
      `${name} has no field of its own among them`,
    );
    const { state, fault } = fold(name, row.example.context, answer({ ...row.example.context, ...added }));
    t.equal(fault, null, name);
    t.equal(state.trace[0]?.outcome, 'unchanged');
    t.equal(state.context, row.example.context);
  }
});

t.test('a replaced field is checked', async (t) => {
  const context = { systemPrompt: 'a', model: 'm' };
  for (const bad of ['', 7, null, {}, 'x'.repeat(262_145)])
    t.equal(fold('middleware.systemPrompt', context, answer(bad)).state.trace[0]?.outcome, 'skipped_error');
  t.equal(fold('middleware.systemPrompt', context, answer('a')).state.trace[0]?.outcome, 'unchanged');
  const vetoed = fold('middleware.systemPrompt', context, { kind: 'cancelled', reason: 'no' });
  t.match(vetoed, { state: { cancelled: null, trace: [{ outcome: 'skipped_error' }] }, fault: /cannot cancel/ });
});

t.test('a failing plugin is skipped, except in SSH hooks', async (t) => {
  for (const [name, row] of Object.entries(hooks)) {
    for (const kind of ['error', 'timeout', 'unavailable'] as const) {
      const { state } = fold(name as HookName, row.example.context, { kind, message: 'x' });
      const vetoes = row.onFailure === 'cancel';
      t.equal(state.trace[0]?.outcome, `${vetoes ? 'vetoed' : 'skipped'}_${kind}`, name);
      t.equal(state.cancelled !== null, vetoes);
      t.ok(linkOutcomes.includes(state.trace[0]?.outcome ?? 'changed'));
    }
  }
});

t.test('a required link that did not run or failed cancels every hook, and the reason says what to do', async (t) => {
  const causes: readonly (readonly [LinkResult, string, RegExp])[] = [
    [{ kind: 'error', message: 'key sk-1 is wrong', stack: 'Error: …' }, 'vetoed_error', /failed with an error, and/],
    [
      { kind: 'error', message: 'it was ended by SIGKILL' },
      'vetoed_error',
      /failed, .*: it was ended by SIGKILL\. (Try|See)/,
    ],
    [
      { kind: 'unavailable', message: 'it is still starting' },
      'vetoed_unavailable',
      /: it is still starting\. (Try|See)/,
    ],
    [{ kind: 'unavailable', message: 'x'.repeat(2_000) }, 'vetoed_unavailable', /could not run/],
    [{ kind: 'unavailable', message: 'too late', isOutOfTime: true }, 'vetoed_unavailable', /could not run/],
    [answer(7), 'vetoed_error', /returned a result that this hook does not allow/],
  ];
  for (const [name, row] of Object.entries(hooks) as [HookName, HookRow][]) {
    for (const [result, outcome, why] of causes) {
      const { state, fault } = foldLink(name, startChain(row.example.context), required, result, 1);
      t.match(state.trace, [{ installationId: 'i1', slug: 'one', required: true, outcome }], name);
      t.match(state.cancelled, { by: required, cause: 'failure', reason: why });
      t.match(state.cancelled?.reason, /^“Guard One” .*this account requires it.* pause the plugin/);
      const hasRun = name === 'middleware.toolResult' || name === 'middleware.sshCommandOutput';
      if (hasRun) t.notMatch(state.cancelled?.reason, /Try again/, 'the tool or the command would run twice');
      t.ok((state.cancelled?.reason ?? '').length <= 500);
      t.notMatch(state.cancelled?.reason, /sk-1/, 'the plugin’s own error stays in its log');
      t.ok(fault);
    }
    const late = foldLink(name, startChain(row.example.context), required, { kind: 'timeout', message: 'x' }, 90_000);
    t.match(late.state.cancelled?.reason, `did not answer within ${row.budgetMs / 1000} s`);
    const cut = foldLink(name, startChain(row.example.context), required, { kind: 'timeout', message: 'x' }, 1_234);
    t.match(cut.state.cancelled?.reason, 'did not answer within 1.2 s');
    const blocked = { kind: 'timeout', message: 'x', cause: 'hook other did not return for 3000 ms' } as const;
    const victim = foldLink(name, startChain(row.example.context), required, blocked, 1_234);
    t.match(
      victim.state.cancelled?.reason,
      /within 1.2 s, .*requires it: hook other did not return for 3000 ms\. (Try|See)/,
    );
    if (row.cancellable) continue;
    const cannot = foldLink(name, startChain(row.example.context), required, { kind: 'cancelled', reason: 'no' }, 1);
    t.match(cannot.state.cancelled, { cause: 'failure' }, 'a cancel where none is allowed is malformed');
  }
  const obstacles: readonly (readonly [LinkResult, string | undefined])[] = [
    [{ kind: 'unavailable', message: 'it is still starting' }, 'unavailable'],
    [{ kind: 'unavailable', message: 'too late', isOutOfTime: true }, undefined],
    [{ kind: 'error', message: 'it was ended by SIGKILL', interrupted: true }, 'interrupted'],
    [{ kind: 'error', message: 'x' }, undefined],
    [{ kind: 'timeout', message: 'x' }, undefined],
    [answer(7), undefined],
  ];
  for (const [result, obstacle] of obstacles) {
    const { state } = foldLink('middleware.inboundMessage', startChain({}), required, result, 1);
    t.equal(state.cancelled?.obstacle, obstacle, JSON.stringify(result));
  }
  const ran = foldLink('middleware.systemPrompt', startChain({ systemPrompt: 'a' }), required, answer('b'), 1);
  t.match(ran.state, { cancelled: null, trace: [{ outcome: 'changed', required: true }] });
});

t.test('time: a link’s own budget within the chain’s', async (t) => {
  t.equal(new ChainTime('compaction.summarize').linkBudgetMs, 60_000);
  const time = new ChainTime('middleware.inboundMessage');
  t.equal(time.linkBudgetMs, 5_000);
  time.subtract(14_000, { pausedMs: 0, hostDelayMs: 0 });
  t.equal(time.linkBudgetMs, 1_000);
  time.subtract(2_000, { pausedMs: 1_500, hostDelayMs: 2_000 });
  t.equal(time.linkBudgetMs, 1_000, 'no more than the call took');
  time.subtract(2_000, { pausedMs: 0, hostDelayMs: 0 });
  t.equal(time.linkBudgetMs, 0);
});

const anyResult: fc.Arbitrary<LinkResult> = fc.oneof(
  fc.jsonValue().map((value): LinkResult => ({ kind: 'answered', answer: value ?? undefined })),
  fc.record({ message: fc.record({ text: fc.string() }) }).map(answer),
  fc.string({ minLength: 1 }).map((reason): LinkResult => ({ kind: 'cancelled', reason })),
  fc.constantFrom('error', 'timeout', 'unavailable').map((kind): LinkResult => ({ kind, message: 'x' }) as LinkResult),
);

t.test('for all results of links, the context stays valid and the trace is complete', async (t) => {
  const names = Object.keys(hooks).filter((name) => name !== 'compaction.summarize') as HookName[];
  fc.assert(
    fc.property(fc.constantFrom(...names), fc.array(anyResult, { maxLength: 6 }), (hook, results) => {
      const start = hooks[hook].example.context as Fields;
      const before = JSON.stringify(start);
      let state: ChainState = startChain(start);
      let asked = 0;
      for (const [index, result] of results.entries()) {
        if (state.cancelled) break;
        asked += 1;
        state = foldLink(hook, state, { ...link, installationId: String(index), slug: `s${index}` }, result, 1).state;
      }
      if (JSON.stringify(start) !== before) return false;
      if (state.trace.length !== asked) return false;
      if (!hooks[hook].cancellable && state.cancelled) return false;
      return hooks[hook].context.safeParse(state.context).success;
    }),
    { seed, numRuns: amount({ quick: 2_000, soak: 200_000 }) },
  );
  t.pass('2,000 chains');
});

t.test('the call of a plugin that may not run any more was not sent', async (t) => {
  const services = { pluginsCache: { current: async () => ({ plugins: [] }) } } as never;
  const request = { kind: 'tools', name: 'run', plugin: { accountId: 'a', installationId: 'i' } } as never;
  t.match(await callSurface(services, request), {
    kind: 'unavailable',
    message: /may not run any more/,
    isUnsent: true,
  });
});
