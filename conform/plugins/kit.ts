/**
 * The plugin that a run installs to see the deployment from inside. Each of its hooks looks at one text of its context and does
 * what the text says: `cancel why`, `throw`, `hang`, `malformed`, `report` (its context as JSON) or `change text`.
 */
import { packageOf } from '../packages.ts';
import { SLOW_MODEL_MS } from './slow-model.ts';

const MANIFEST = `capabilities:
  - host.session
  - host.agents
  - host.models
  - host.workspace
  - host.media
  - host.storage
  - host.ssh:read
  - "host.http:conform.invalid"
settings:
  units: { label: Units, default: metric, enum: [metric, imperial], required: false }
  note: { label: Note, required: false }
secrets:
  apiKey: { label: API key, required: true }`;

const CODE = `
type Patch<T> = (text: string) => T;

function act(ctx: any, text: string | undefined, patch: Patch<any>): any {
  const [word = '', rest = ''] = (text ?? '').split(/ (.*)/s);
  if (word === 'cancel') ctx.cancel(rest);
  if (word === 'throw') throw new Error('as asked');
  if (word === 'hang') return new Promise(() => undefined);
  if (word === 'malformed') return 7;
  if (word === 'change') return patch(rest);
  if (word === 'report') return patch(JSON.stringify(describe(ctx)));
  return undefined;
}

function describe(ctx: any): object {
  const { signal, cancel, ...fields } = ctx;
  return { ...fields, signal: signal instanceof AbortSignal && !signal.aborted, cancel: typeof cancel };
}

middleware.systemPrompt = (ctx) => act(ctx, ctx.systemPrompt, (text) => text);
compaction.summarize = (ctx) => {
  if (ctx.focus === 'blank') return '  ';
  if (ctx.focus === 'oversized') return 'x'.repeat(65_537);
  if (ctx.focus === 'report') return JSON.stringify({ texts: ctx.messages.map(({ text }) => text), maxChars: ctx.maxChars });
  return act(ctx, ctx.focus ?? '', (text) => text);
};
middleware.inboundMessage = (ctx) => act(ctx, ctx.message.text, (text) => ({ message: { text } }));
middleware.outboundMessage = (ctx) => act(ctx, ctx.message.text, (text) => ({ message: { text } }));
middleware.agentMessage = (ctx) => act(ctx, ctx.message.text, (text) => ({ message: { text } }));
middleware.toolCall = (ctx) =>
  act(ctx, (ctx.call.arguments as any)?.judge, (judge) => ({ call: { arguments: { judge } } }));
middleware.toolResult = (ctx) =>
  act(ctx, (ctx.call.arguments as any)?.judge, (text) => ({ result: { content: [{ type: 'text', text }], isError: true } }));
middleware.todoCreate = (ctx) =>
  act(ctx, ctx.todo.title, (title) => ({ todo: { title, notes: 'changed', dueAt: '2030-01-01T00:00:00Z' } }));
middleware.todoUpdate = (ctx) => act(ctx, ctx.changes.title, (title) => ({ changes: { title } }));
middleware.todoComplete = (ctx) => act(ctx, ctx.todo.title, () => undefined);
middleware.todoDelete = (ctx) => act(ctx, ctx.todo.title, () => undefined);
middleware.notifySchedule = (ctx) =>
  act(ctx, ctx.notify.text, (text) => ({ notify: { text, at: '2030-01-01T00:00:00Z' } }));
middleware.notifyDeliver = (ctx) => act(ctx, ctx.notify.text, (text) => ({ notify: { text } }));
middleware.sshCommand = (ctx) => act(ctx, ctx.command, (command) => ({ command, cwd: '/changed', env: { CHANGED: '1' } }));
middleware.sshCommandInput = (ctx) => act(ctx, ctx.data, (data) => ({ data }));
middleware.sshCommandOutput = (ctx) => act(ctx, ctx.stdout, (stdout) => ({ stdout, stderr: 'changed' }));
middleware.sessionClear = (ctx) => act(ctx, ctx.reason, () => undefined);

const logEvent = (event: any) => {
  host.log('event ' + event.type, event);
  if (event.data.agentId === 'flaky' && event.attempt === 1) throw new Error('once');
};
events.pluginInstalled = logEvent;
events.pluginUninstalled = logEvent;
events.pluginUpdated = logEvent;
events.sessionStarted = logEvent;
events.sessionCleared = logEvent;
events.sessionDeleted = logEvent;

const parameters = { type: 'object' };
tools.host = {
  description: 'Calls a member of host',
  parameters: { type: 'object', properties: { member: { type: 'string' }, args: { type: 'array' } }, required: ['member'] },
  handler: async ({ member, args = [] }: { member: string; args?: any[] }) => {
    const [group = '', name = ''] = member.split('.');
    const given = args.map((arg) => (arg?.bytes ? new Uint8Array(arg.bytes) : arg));
    const result = await (host as any)[group][name](...given);
    const sent = (_key: string, value: unknown) => (value instanceof Uint8Array ? { bytes: [...value] } : value);
    return { result: JSON.parse(JSON.stringify(result ?? null, sent)) };
  },
};
tools.answer = {
  description: 'Returns the value that it is asked for',
  parameters: { type: 'object', properties: { kind: { type: 'string' } }, required: ['kind'], additionalProperties: false },
  handler: ({ kind }: { kind: string }): any => {
    if (kind === 'text') return 'as text';
    if (kind === 'json') return { as: ['json', null] };
    if (kind === 'content') return { content: [{ type: 'text', text: 'a' }, { type: 'json', json: { b: 1 } }] };
    if (kind === 'failed') return { content: [{ type: 'text', text: 'no' }], isError: true };
    if (kind === 'large') return 'x'.repeat(262_145);
    throw new Error('as asked');
  },
};
tools.types = {
  description: 'The types of globals, or of members of host',
  parameters,
  handler: ({ names = [], of = 'globals' }: { names?: string[]; of?: string }) => {
    const owner: any = of === 'host' ? host : globalThis;
    const find = (name: string) => name.split('.').reduce((at: any, key) => at?.[key], owner);
    return Object.fromEntries(names.map((name) => [name, typeof find(name)]));
  },
};
tools.context = { description: 'The fields of its context', parameters, handler: (_args: object, ctx: any) => describe({ ...ctx }) };
tools.secret = {
  description: 'Whether a secret has a value',
  parameters,
  handler: async ({ value }: { value?: string }) => ({ same: (await host.secrets.get('apiKey')) === value, settings: host.settings }),
};
tools.log = {
  description: 'Writes log lines',
  parameters,
  handler: ({ mark = '' }: { mark?: string }) => {
    host.log('info ' + mark, { nested: { mark } });
    host.log.debug('debug ' + mark);
    host.log.warn('warn ' + mark);
    host.log.error('error ' + mark);
    console.log('console', mark);
    host.log('long ' + mark, 'x'.repeat(20_000));
    const cycle: any = { ok: 1, big: 1n };
    cycle.self = cycle;
    host.log('odd ' + mark, cycle);
    host.log('wide ' + mark + ' ' + 'ä'.repeat(9_000));
    return 'ok';
  },
};
tools.realm = {
  description: 'Reports which actions code can perform inside the realm',
  parameters,
  handler: async () => {
    const names = (work: () => unknown) => {
      try {
        return String(work());
      } catch (error: any) {
        return error.name;
      }
    };
    const own: any = {};
    own.toString = () => 'own';
    return {
      undeclared: names(() => (0, eval)('undeclaredName')),
      builtCode: names(() => (Function as any)('return typeof process')()),
      inherited: String(own),
      uuid: crypto.randomUUID(),
      digest: [...new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode('a')))].slice(0, 2),
      clone: structuredClone({ a: [1] }),
      timeout: AbortSignal.timeout(1000).aborted,
    };
  },
};
commands.echo = { description: 'Repeats its input', handler: (input: string) => 'echo ' + input };
providers.conform = {
  models: [{ id: 'parrot', name: 'Parrot' }],
  chat: async (request) => {
    const text = request.messages.at(-1)?.text ?? '';
    if (text === 'slowly') await new Promise((resolve) => setTimeout(resolve, ${SLOW_MODEL_MS}));
    return { text, model: 'parrot', usage: { inputTokens: 1, outputTokens: 1 } };
  },
};

channel.receive = async (request) => {
  const { bodyBytes, ...fields } = request;
  const text = request.bodyText;
  host.log('delivery', { ...fields, bytes: [...bodyBytes.slice(0, 64)] });
  if (text.startsWith('poison')) throw new Error('always');
  if (text.startsWith('flaky') && request.attempt === 1) throw new Error('once');
  if (!text.startsWith('say ')) return undefined;
  return { messages: [{ conversationKey: 'room', from: 'ann', text: text.slice(4) }] };
};
channel.send = async (message) => {
  host.log('sent', message);
};
channel.handshake = (request) =>
  request.query.includes('none') ? undefined : { status: 200, headers: { 'x-hook-secret': '1' }, body: 'shaken ' + request.bodyText };
channel.handshakeOn = { jsonType: 'url_verification' };
`;

export const kitPackage = packageOf(
  CODE,
  { name: 'Conformance kit', more: MANIFEST },
  {
    'commands/greet.md': '---\ndescription: Greets somebody\n---\nGreet $ARGUMENTS warmly.\n',
    'skills/baking/SKILL.md': '---\nname: baking\ndescription: How to bake\n---\n# Baking\nUse flour.\n',
  },
);
