/** A handler that changes its context and returns nothing changes nothing, and the log says so. */
import t from 'tap';
import { trackInvocations } from '../../sandbox-child/invocations.ts';
import { LostChanges } from '../../sandbox-child/lost-changes.ts';
import { Cancellation, StdinReader } from '../../sandbox-child/supervisor-connection.ts';
import { eventually } from '../runner/eventually.ts';
import { bundleOf, testChild, testJail } from '../supervisor/children/jailed-child.ts';

const NAME = 'middleware.inboundMessage';
const TARGET = { kind: 'hook', name: NAME } as const;

interface Context {
  message: { id: string; text?: string; attachments: { id: string }[] };
  settings: { words?: string[] };
  at: number;
  found?: boolean;
  readonly signal: AbortSignal;
  readonly cancel: (reason: string) => never;
}
type Body = (context: Context) => unknown;

const warning = (place: string): string =>
  `${NAME} changed ${place} and returned nothing, so the change is lost: handlers get a copy. Return the fields that change`;

/** Calls handlers of one plugin one after the other. @returns the lines of its log */
async function callHandlers(...bodies: Body[]): Promise<string[]> {
  const lines: string[] = [];
  const changes = new LostChanges((_invocationId, message) => lines.push(message));
  const invocations = trackInvocations(() => undefined);
  const cancellation = new Cancellation(new StdinReader());
  for (const body of bodies) {
    const context = { message: { id: 'm', text: '4242', attachments: [{ id: 'a' }] }, settings: {}, at: 0 };
    const call = { target: TARGET, invocationId: 'call', context, deadlineMs: 1_000 };
    await changes.watch(
      { name: NAME, invocationId: 'call' },
      (given) => body(given as Context),
      (handler) => invocations.run(call, handler, cancellation),
    );
  }
  return lines;
}

const hide: Body = ({ message }) => {
  message.text = '***';
};

const lost: Readonly<Record<string, readonly [Body, place: string]>> = {
  'a text': [hide, 'ctx.message.text'],
  'a text after an await': [
    async (ctx) => {
      await null;
      hide(ctx);
    },
    'ctx.message.text',
  ],
  'a field of the context': [
    (ctx) => {
      ctx.message = { ...ctx.message, text: '***' };
    },
    'ctx.message',
  ],
  'an item of a list': [
    ({ message }) => {
      Object.assign(message.attachments[0] ?? {}, { id: 'b' });
    },
    'ctx.message.attachments[0].id',
  ],
  'a longer list': [({ message }) => void message.attachments.push({ id: 'b' }), 'ctx.message.attachments'],
  'a removed text': [
    ({ message }) => {
      delete message.text;
    },
    'ctx.message',
  ],
  'a getter that throws': [
    ({ message }) => {
      Object.defineProperty(message, 'text', {
        get: () => {
          throw new Error('read');
        },
      });
    },
    'ctx.message.text',
  ],
};
for (const [what, [body, place]] of Object.entries(lost))
  t.test(`a warning names the place of ${what}`, async (t) => t.same(await callHandlers(body), [warning(place)]));

t.test('each handler is warned about once', async (t) => t.equal((await callHandlers(hide, hide, hide)).length, 1));

t.test('the first thousand calls are watched', async (t) => {
  const pass: Body = () => undefined;
  t.same(await callHandlers(...Array<Body>(999).fill(pass), hide), [warning('ctx.message.text')]);
  t.same(await callHandlers(...Array<Body>(1_000).fill(pass), hide), []);
});

const kept: Readonly<Record<string, Body>> = {
  'returns the change': (ctx) => {
    hide(ctx);
    return { message: { text: '***' } };
  },
  'returns its context': (ctx) => {
    hide(ctx);
    return ctx;
  },
  cancels: (ctx) => {
    hide(ctx);
    ctx.cancel('no');
  },
  fails: (ctx) => {
    hide(ctx);
    throw new Error('no');
  },
  'keeps notes in its context': (ctx) => {
    ctx.settings.words ??= [];
    ctx.at = 1;
    ctx.found = true;
    ctx.message.id = 'n';
  },
  'uses the signal': ({ signal }) => void signal.aborted,
  'changes nothing': () => undefined,
};
for (const [what, body] of Object.entries(kept))
  t.test(`a handler that ${what} is not warned about`, async (t) => t.same(await callHandlers(body), []));

/** Calls a handler of each hook that changes this context and returns nothing. @returns the lines of the log */
async function changeInHooks(names: readonly string[], context: object, change: () => void): Promise<string[]> {
  const lines: string[] = [];
  const changes = new LostChanges((_invocationId, message) => lines.push(message));
  for (const name of names)
    await changes.watch({ name, invocationId: 'call' }, change, (handler) => ({
      outcome: 'answered',
      answer: handler(context),
    }));
  return lines;
}

t.test('a long list hides no field beside it, and is not read to its end', async (t) => {
  let reads = 0;
  const content = new Proxy(
    Array.from({ length: 100_000 }, () => ({ text: 'a' })),
    {
      get: (list, name) => {
        reads += 1;
        return Reflect.get(list, name);
      },
    },
  );
  const context = { result: { content, isError: false } };
  const change = (): void => {
    context.result.isError = true;
  };
  const lines = await changeInHooks(['middleware.toolResult'], context, change);
  t.match(lines, [/ changed ctx\.result\.isError .* Return the fields that change$/]);
  t.ok(reads < 1_000, `${reads} reads`);
});

t.test(
  'a hook that returns one text is advised to return it, and one that can change nothing is not warned about',
  async (t) => {
    const context = { systemPrompt: 'a', messages: ['a', 'b'] };
    const change = (): void => {
      context.systemPrompt += 'b';
      context.messages.reverse();
    };
    const names = ['compaction.summarize', 'middleware.sessionClear', 'middleware.systemPrompt'];
    const lines = await changeInHooks(names, context, change);
    t.match(lines, [/^middleware\.systemPrompt changed ctx\.systemPrompt .* Return the new text$/]);
  },
);

t.test('the warning of a plugin arrives in its log', async (t) => {
  const child = testChild(t, await testJail(t));
  await child.load(bundleOf(`${NAME} = async (ctx) => { ctx.message.text = '***'; };`));
  const options = { invocationId: 'call', deadlineAt: Date.now() + 60_000 };
  t.match(await child.invoke(TARGET, { message: { text: '4242' } }, options), { outcome: 'answered' });
  await eventually(async () => child.lines.length === 1);
  t.match(child.lines, [{ level: 'warn', message: warning('ctx.message.text'), invocationId: 'call' }]);
});
