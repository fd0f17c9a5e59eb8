/** Contract: hooks, chains and required installations. */
import { ensure, expect, holding, isText, isTime } from '../expect.ts';
import { packageOf } from '../packages.ts';
import { asker } from '../plugins/asker.ts';
import { SLOW_MODEL_MS } from '../plugins/slow-model.ts';
import { type Chapter, lateRow, type Row, row, unchecked } from '../row.ts';
import type { Run } from '../run.ts';
import { pauseAndUninstall } from './call-sequences.ts';

const TODO = { title: '', notes: '', dueAt: null, assigneeAgentId: null };
const NOTIFY = { at: '2026-01-05T09:00:00Z', repeat: null, to: 'team' };
const HOST = { id: 'h', name: 'Host' };

interface HookCase {
  readonly hook: string;
  /** The context with the text that the kit acts on. */
  context(text: string): object;
  /** The patchable fields, as the kit changes them. Null: none. */
  readonly changed: object | null;
  readonly fields: string;
  /** Default: true. */
  readonly cancel?: boolean;
  /** Default: `skip`. */
  readonly onError?: 'skip' | 'cancel';
}

const CASES: readonly HookCase[] = [
  {
    hook: 'inboundMessage',
    context: (text) => ({ message: { id: 'm', from: 'ann', text } }),
    changed: { message: { id: 'm', from: 'ann', text: 'new' } },
    fields: 'message{id, from, text, attachments}',
  },
  {
    hook: 'outboundMessage',
    context: (text) => ({ message: { id: 'm', text }, target: 'ann' }),
    changed: { message: { id: 'm', text: 'new' }, target: 'ann' },
    fields: 'message{id, text, attachments}, target',
  },
  {
    hook: 'agentMessage',
    context: (text) => ({ fromAgentId: 'a', toAgentId: 'b', message: { text } }),
    changed: { fromAgentId: 'a', toAgentId: 'b', message: { text: 'new' } },
    fields: 'fromAgentId, toAgentId, message{text}',
  },
  {
    hook: 'toolCall',
    context: (judge) => ({ call: { id: 'c', name: 'notes__add', arguments: { judge } } }),
    changed: { call: { id: 'c', name: 'notes__add', arguments: { judge: 'new' } } },
    fields: 'call{id, name, arguments}',
  },
  {
    hook: 'toolResult',
    context: (judge) => ({
      call: { id: 'c', name: 'notes__add', arguments: { judge } },
      result: { content: [{ type: 'text', text: 'old' }], isError: false },
      durationMs: 1,
    }),
    changed: { result: { content: [{ type: 'text', text: 'new' }], isError: true }, durationMs: 1 },
    fields: 'call{id, name, arguments}, result{content, isError}, durationMs',
  },
  {
    hook: 'todoCreate',
    context: (title) => ({ todo: { ...TODO, title } }),
    changed: { todo: { title: 'new', notes: 'changed', dueAt: '2030-01-01T00:00:00Z' } },
    fields: 'todo{title, notes, dueAt, assigneeAgentId}',
  },
  {
    hook: 'todoUpdate',
    context: (title) => ({ before: { ...TODO, title: 'old', id: 't', done: false }, changes: { title } }),
    changed: { before: { title: 'old' }, changes: { title: 'new' } },
    fields: 'before, changes',
  },
  {
    hook: 'todoComplete',
    context: (title) => ({ todo: { ...TODO, title, id: 't', done: false }, by: 'ann' }),
    changed: null,
    fields: 'todo, by',
  },
  {
    hook: 'todoDelete',
    context: (title) => ({ todo: { ...TODO, title, id: 't', done: false } }),
    changed: null,
    fields: 'todo',
  },
  {
    hook: 'notifySchedule',
    context: (text) => ({ notify: { ...NOTIFY, text } }),
    changed: { notify: { text: 'new', at: '2030-01-01T00:00:00Z', to: 'team' } },
    fields: 'notify{text, at, repeat, to}',
  },
  {
    hook: 'notifyDeliver',
    context: (text) => ({ notify: { id: 'n', text, to: 'team' } }),
    changed: { notify: { id: 'n', text: 'new' } },
    fields: 'notify{id, text, to}',
  },
  {
    hook: 'sshCommand',
    context: (command) => ({ host: HOST, command, cwd: '/', env: {}, timeoutMs: 1000 }),
    changed: { command: 'new', cwd: '/changed', env: { CHANGED: '1' }, host: HOST },
    fields: 'host{id,name}, command, cwd, env, timeoutMs',
    onError: 'cancel',
  },
  {
    hook: 'sshCommandInput',
    context: (data) => ({ commandId: 'c', data }),
    changed: { commandId: 'c', data: 'new' },
    fields: 'commandId, data',
    onError: 'cancel',
  },
  {
    hook: 'sshCommandOutput',
    context: (stdout) => ({ command: 'ls', exitCode: 0, stdout, stderr: '', durationMs: 1 }),
    changed: { command: 'ls', stdout: 'new', stderr: 'changed' },
    fields: 'command, exitCode, stdout, stderr, durationMs',
    cancel: false,
  },
  {
    hook: 'sessionClear',
    context: (reason) => ({ reason, messageCount: 0, by: 'ann' }),
    changed: null,
    fields: 'reason, messageCount, by',
  },
];

const findKitStep = async (run: Run, trace: { installationId: string }[]) => {
  const { installationId } = await run.kit();
  return trace.find((step) => step.installationId === installationId);
};

function rowsOf({ hook, context, changed, fields, cancel = true, onError = 'skip' }: HookCase): Row[] {
  const name = `middleware.${hook}`;
  const patched = row(
    changed
      ? `${name}: ${fields}; the patchable fields can be changed.`
      : `${name}: ${fields}; no field can be changed.`,
    async (run) => {
      const { status, body } = await run.hook(hook, context('change new'));
      expect(
        { status, body },
        { status: 200, body: { action: 'continue', context: changed ?? context('change new') } },
      );
      expect(await findKitStep(run, body.trace), { outcome: changed ? 'changed' : 'unchanged' });
    },
  );
  const cancelled = row(`${name}: cancel: ${cancel ? 'yes' : 'no'}.`, async (run) => {
    const { slug } = await run.kit();
    const { body } = await run.hook(hook, context('cancel for a reason'));
    expect(
      body,
      cancel ? { action: 'cancel', reason: 'for a reason', cancelledBy: slug } : { action: 'continue', reason: null },
    );
  });
  const failed = row(`${name}: on error: ${onError}.`, async (run) => {
    const { body } = await run.hook(hook, context('throw'));
    expect(body, { action: onError === 'cancel' ? 'cancel' : 'continue' });
    expect(await findKitStep(run, body.trace), { outcome: onError === 'cancel' ? 'vetoed_error' : 'skipped_error' });
  });
  return [patched, cancelled, failed];
}

const SECOND_CODE = `
middleware.outboundMessage = (ctx) => {
  if (ctx.message.text.startsWith('chain')) return { message: { text: ctx.message.text + ' second' } };
};
middleware.agentMessage = (ctx) => {
  if (ctx.message.text === 'required throws') throw new Error('as asked');
  if (ctx.message.text === 'required malformed') return 7 as any;
};
compaction.summarize = () => 'second';`;
const FIRST_CODE = `
middleware.outboundMessage = (ctx) => {
  if (ctx.message.text === 'chain stop') ctx.cancel('first');
  if (ctx.message.text.startsWith('chain')) return { message: { text: ctx.message.text + ' first' } };
};`;

/** Two plugins in one chain, the later installed one first by its order; the second is required. */
const installPair = (run: Run) =>
  run.once('pair', async () => {
    const second = await run.install('second', packageOf(SECOND_CODE), { required: true });
    const first = await run.install('first', packageOf(FIRST_CODE));
    await run.own.need(run.own.patch(`/installations/${first.installationId}`, { hookOrder: -10 }));
    await run.kit();
    await run.until('the new order', async () => {
      const { body } = await run.hook('outboundMessage', { message: { id: 'm', text: 'chain' }, target: 't' });
      return body.context.message.text === 'chain first second';
    });
    return { first, second };
  });
const runOutbound = async (run: Run, text: string) => {
  await installPair(run);
  return (await run.hook('outboundMessage', { message: { id: 'm', text }, target: 't' })).body;
};
/** Slightly less than the 5 s of a link, because clocks and timers differ. Milliseconds. */
const LINK_MIN_MS = 4_900;
/** Runs a hook through a plugin of its own that never answers, once its child has answered something else. */
async function runHanging(run: Run, hook: string, context: (text: string) => object) {
  await run.kit();
  const code = `middleware.${hook} = (ctx) => (JSON.stringify(ctx).includes('hang') ? new Promise(() => undefined) : undefined) as any;`;
  const { installationId } = await run.install(`hanging-${hook.toLowerCase()}`, packageOf(code));
  await run.own.need(run.own.patch(`/installations/${installationId}`, { hookOrder: -100 }));
  const call = async (text: string) => {
    const { body } = await run.hook(hook, context(text));
    const step = body.trace.find((one: { installationId: string }) => one.installationId === installationId);
    return { body, step };
  };
  await run.until('the start of the plugin', async () => (await call('quick')).step?.outcome === 'unchanged');
  const started = performance.now();
  const { body, step } = await call('hang');
  return { body, step, ms: performance.now() - started };
}
const runRequired = async (run: Run, text: string) => {
  await installPair(run);
  return (await run.hook('agentMessage', { fromAgentId: 'a', toAgentId: 'b', message: { text } })).body;
};

export const hooks: Chapter = {
  title: 'Contract: hooks',
  rows: [
    row(
      'Every hook context has hook, invocationId, settings, agent, session, trigger, at, deadlineAt and signal.',
      async (run) => {
        const { body } = await run.hook('outboundMessage', { message: { id: 'm', text: 'report' }, target: 't' });
        const context = JSON.parse(body.context.message.text);
        const session = await run.session();
        expect(context, {
          hook: 'middleware.outboundMessage',
          invocationId: isText,
          settings: { units: isText },
          agent: { id: 'conform-agent', name: 'conform-agent' },
          session: { id: session, channelId: null },
          trigger: 'agent',
          at: isTime,
          deadlineAt: isTime,
          signal: true,
        });
      },
    ),
    row('A context’s defaults: settings are those of the manifest where the user gave none.', async (run) => {
      const { settings } = await run.tool('secret');
      ensure(['metric', 'imperial'].includes(settings.units), `units is ${settings.units}`);
    }),
    row('Returning nothing changes nothing.', async (run) => {
      const { body } = await run.hook('outboundMessage', { message: { id: 'm', text: 'as it is' }, target: 't' });
      expect(body, { action: 'continue', context: { message: { text: 'as it is' } } });
      expect(await findKitStep(run, body.trace), { outcome: 'unchanged' });
    }),
    row(
      'ctx.cancel(reason) ends the handler, the chain and the operation; the transcript shows the reason.',
      async (run) => {
        const session = await run.newSession('cancelled');
        const { body } = await run.hook(
          'outboundMessage',
          { message: { id: 'm', text: 'cancel too loud' }, target: 't' },
          session,
        );
        expect(body, { action: 'cancel', reason: 'too loud' });
        const transcript = await run.own.session('GET', `/sessions/${session}/messages`);
        expect(transcript.body.items, holding({ role: 'notice', text: /too loud/ }));
      },
    ),
    row('A notice names the plugin by its display name.', async (run) => {
      const session = await run.newSession('noticed');
      await run.hook('inboundMessage', { message: { id: 'm', from: 'a', text: 'cancel no' } }, session);
      const { installationId } = await run.kit();
      const { displayName } = (await run.own.get(`/installations/${installationId}`)).body;
      const transcript = await run.own.session('GET', `/sessions/${session}/messages`);
      expect(transcript.body.items, holding({ role: 'notice', text: new RegExp(displayName) }));
    }),
    row('A reason has 1-500 characters.', async (run) => {
      const { body } = await run.hook('outboundMessage', {
        message: { id: 'm', text: `cancel ${'x'.repeat(600)}` },
        target: 't',
      });
      expect(body.reason.length, 500, 'the length of the reason');
    }),
    row('middleware.systemPrompt: systemPrompt, model; returns the new string.', async (run) =>
      expect((await run.hook('systemPrompt', { systemPrompt: 'change New.', model: 'm' })).body.context, {
        systemPrompt: 'New.',
        model: 'm',
      }),
    ),
    row('middleware.systemPrompt: a malformed answer is skipped.', async (run) =>
      expect((await run.hook('systemPrompt', { systemPrompt: 'malformed', model: 'm' })).body, {
        action: 'continue',
        context: { systemPrompt: 'malformed' },
      }),
    ),
    row('middleware.systemPrompt: on error: skip.', async (run) =>
      expect((await run.hook('systemPrompt', { systemPrompt: 'throw', model: 'm' })).body, {
        action: 'continue',
        context: { systemPrompt: 'throw' },
      }),
    ),
    row('compaction.summarize: messages, focus, maxChars.', async (run) => {
      await run.kit();
      const { body } = await run.own.session('POST', `/sessions/${await run.newSession('max')}/compaction`, {
        focus: 'report',
      });
      expect(JSON.parse(body.summary), { maxChars: 65_536 });
    }),
    row('compaction.summarize: on error: built-in and a notice.', async (run) => {
      await run.kit();
      const { body } = await run.own.session('POST', `/sessions/${await run.newSession('max')}/compaction`, {
        focus: 'throw',
      });
      expect(body, { source: 'builtin', notice: isText });
    }),
    ...CASES.flatMap(rowsOf),
    lateRow('middleware.systemPrompt: on timeout: skip, after 3 s.', async (run) => {
      const { body, step, ms } = await runHanging(run, 'systemPrompt', (systemPrompt) => ({ systemPrompt }));
      expect(body.action, 'continue');
      expect(step, { outcome: 'skipped_timeout' });
      ensure(ms > 2_900 && ms < 12_000, `it took ${Math.round(ms)} ms`);
    }),
    lateRow('A link that takes longer than 5 s is skipped.', async (run) => {
      const context = (text: string) => ({ notify: { id: 'n', text, to: 't' } });
      const { body, step, ms } = await runHanging(run, 'notifyDeliver', context);
      expect(body.action, 'continue');
      expect(step, { outcome: 'skipped_timeout' });
      ensure(ms > LINK_MIN_MS, `it was skipped after ${Math.round(ms)} ms`);
    }),
    lateRow('The SSH hooks cancel on timeout.', async (run) => {
      const { body, step, ms } = await runHanging(run, 'sshCommandInput', (data) => ({ commandId: 'c', data }));
      expect(body.action, 'cancel');
      expect(step, { outcome: 'vetoed_timeout' });
      ensure(ms > LINK_MIN_MS, `it was cancelled after ${Math.round(ms)} ms`);
    }),
    row('message.attachments defaults to [].', async (run) =>
      expect((await run.hook('inboundMessage', { message: { id: 'm', from: 'a', text: 'x' } })).body.context, {
        message: { attachments: [] },
      }),
    ),
    row('todo.notes defaults to "".', async (run) => {
      const { notes: _, ...todo } = { ...TODO, title: 'x' };
      expect((await run.hook('todoCreate', { todo })).body.context, { todo: { notes: '' } });
    }),
    row('model may be left out.', async (run) =>
      expect((await run.hook('systemPrompt', { systemPrompt: 'x' })).status, 200),
    ),
    lateRow('Chain: by hookOrder, each link seeing the last one’s patch.', async (run) =>
      expect(await runOutbound(run, 'chain'), { context: { message: { text: 'chain first second' } } }),
    ),
    lateRow('Chain: the first cancel ends it.', async (run) => {
      const { second, first } = await installPair(run);
      const { action, reason, cancelledBy, trace } = await runOutbound(run, 'chain stop');
      expect({ action, reason, cancelledBy }, { action: 'cancel', reason: 'first', cancelledBy: first.slug });
      ensure(!trace.some((step: { slug: string }) => step.slug === second.slug), 'a later link ran');
    }),
    lateRow('The trace shows each link’s installationId, slug, ms, outcome and required.', async (run) => {
      const { first, second } = await installPair(run);
      const { trace } = await runOutbound(run, 'chain');
      expect(
        trace,
        holding({ installationId: first.installationId, slug: first.slug, outcome: 'changed', required: false }),
      );
      expect(
        trace,
        holding({ installationId: second.installationId, ms: (ms: unknown) => Number(ms) >= 0, required: true }),
      );
    }),
    row('Chain: over the running installations that registered the hook; a paused one takes no part.', async (run) => {
      const { body } = await run.own.session('GET', `/sessions/${await run.session()}/hooks`);
      expect(body.items, holding({ name: 'outboundMessage', slug: (await run.kit()).slug }));
      const { isInChain, isInChainPaused } = await pauseAndUninstall(run);
      expect({ isInChain, isInChainPaused }, { isInChain: true, isInChainPaused: false }, 'whether a link ran');
    }),
    lateRow('Compaction runs only one installation that registered it.', async (run) => {
      await installPair(run);
      const { body } = await run.own.session('POST', `/sessions/${await run.newSession('one')}/compaction`, {});
      ensure(body.trace.length === 1, `the trace has ${body.trace.length} links`);
    }),
    lateRow(
      'Required installations fail closed: a failure cancels, with cancelledBy and a reason that names the cause.',
      async (run) => {
        const { second } = await installPair(run);
        expect(await runRequired(run, 'required throws'), {
          action: 'cancel',
          cancelledBy: second.slug,
          reason: /failed with an error/,
        });
      },
    ),
    lateRow('Required installations fail closed: a malformed answer cancels.', async (run) => {
      const { second } = await installPair(run);
      expect(await runRequired(run, 'required malformed'), {
        action: 'cancel',
        cancelledBy: second.slug,
        reason: isText,
      });
    }),
    lateRow('Where a required installation works, the operation goes on.', async (run) =>
      expect(await runRequired(run, 'required works'), { action: 'continue' }),
    ),
    lateRow('A chain has 15 s.', async (run) => {
      await run.kit();
      const code = `middleware.todoDelete = (ctx) =>
        (ctx.todo.title === 'stall' ? new Promise(() => undefined) : undefined) as any;`;
      const made = await Promise.all([1, 2, 3, 4].map((at) => run.install(`patient-${at}`, packageOf(code))));
      const call = async (title: string) => {
        const todo = { ...TODO, id: 't', done: false, title };
        const { trace } = (await run.hook('todoDelete', { todo })).body;
        return made.map(({ slug }) => trace.find((link: { slug: string }) => link.slug === slug));
      };
      await run.until('the start of four plugins', async () =>
        (await call('quick')).every((link) => link?.outcome === 'unchanged'),
      );
      const links = await call('stall');
      const seconds = links.reduce((sum, { ms }) => sum + ms, 0) / 1000;
      const last = links.filter(({ outcome }) => outcome !== 'skipped_timeout');
      expect(
        last,
        [{ outcome: 'skipped_unavailable', reason: 'earlier links used up the chain’s time' }],
        'the last link',
      );
      // No upper bound: the time in which a busy service is blocked does not count.
      ensure(seconds > 14, `four links took ${seconds} s`);
    }),
    lateRow('Time spent in host.llm does not count against a link’s budget.', async (run) => {
      const { slug, ask } = await asker(run);
      const { trace, context } = await ask('slowly');
      expect(context.notify.text, 'slowly', 'what the model answered');
      const { outcome, ms } = trace.find((link: { slug: string }) => link.slug === slug);
      expect(outcome, 'changed', 'the outcome');
      ensure(ms > SLOW_MODEL_MS, `expected the link to take more than ${SLOW_MODEL_MS} ms; it took ${ms} ms`);
    }),
    unchecked(
      'Time spent in host.ssh does not count against a link’s budget.',
      'needs an SSH host of the operator, and would run a command on it',
    ),
    row('A tool handler returns {content, isError?}.', async (run) =>
      expect((await run.callTool('answer', { kind: 'content' })).body, {
        content: [
          { type: 'text', text: 'a' },
          { type: 'json', json: { b: 1 } },
        ],
        isError: false,
      }),
    ),
    row('A tool handler may return a string: one text part.', async (run) =>
      expect((await run.callTool('answer', { kind: 'text' })).body, {
        content: [{ type: 'text', text: 'as text' }],
        isError: false,
      }),
    ),
    row('A tool handler may return any JSON value: one text part.', async (run) =>
      expect((await run.callTool('answer', { kind: 'json' })).body, {
        content: [{ type: 'text', text: '{"as":["json",null]}' }],
      }),
    ),
    row('A tool handler may say isError.', async (run) =>
      expect((await run.callTool('answer', { kind: 'failed' })).body, { isError: true, content: [{ text: 'no' }] }),
    ),
    row('A tool handler that throws answers with isError.', async (run) =>
      expect(await run.callTool('answer', { kind: 'thrown' }), {
        status: 200,
        body: { isError: true, content: [{ text: /as asked/ }] },
      }),
    ),
    row('Tool arguments are checked first: 422.', async (run) =>
      expect(await run.callTool('answer', { kind: 'text', more: 1 }), {
        status: 422,
        body: { code: 'invalid_arguments' },
      }),
    ),
    row('ctx.signal survives a spread.', async (run) => expect(await run.tool('context'), { signal: true })),
  ],
};
