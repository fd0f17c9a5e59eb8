/** `@bulkhead/sdk/testing`: a package in a jailed process, with what a test says around it. */

import { createHmac, randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { stop as stopEsbuild } from 'esbuild';
import t from 'tap';
import { ScriptedStorage } from '../../pack/testing/scripted-storage.ts';
import { openPlugin } from '../../pack/testing/testing.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { surfaceExamples } from '../../sdk/generate/surface-examples.ts';
import type { HostAnswer, PluginOptions, WholeAnswer } from '../../sdk/testing/testing.ts';
import { waitWithoutProcessor } from '../fixtures/late-hang.ts';
import { eventually } from '../runner/eventually.ts';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';
import { amount, isSoak, soakTest } from '../runner/soak.ts';

t.teardown(() => stopEsbuild());

const HEAD = `---
name: Kit
description: For tests
capabilities: [host.llm, host.session, host.storage, "host.http:api.example.com", "host.workspace:read"]
settings: { tone: { default: dry, enum: [dry, warm] }, title: { default: Kit, required: true } }
secrets: { key: {}, bearer: { use: [http:api.example.com, webhooks] } }
---
`;

async function write(test: Teardown, code: string, files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = join(await temporaryFolder(test), 'kit');
  for (const [path, text] of Object.entries({ 'readme.md': HEAD, 'index.ts': code, ...files })) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return folder;
}
async function open(test: Teardown, code: string, options?: PluginOptions, files?: Readonly<Record<string, string>>) {
  const plugin = await openPlugin(await write(test, code, files), options);
  test.teardown(() => plugin.close());
  return plugin;
}

t.test('a plugin gets a handle of a secret with a use, which the recorded request shows filled in', async (t) => {
  const plugin = await open(
    t,
    `tools.send = { description: 'Sends', parameters: {}, handler: async () => {
       const handle = await host.secrets.get('bearer');
       const bodyBytes = new TextEncoder().encode('{}');
       const headers = { 'x-hub-signature-256': '${`sha256=${createHmac('sha256', 't0ken').update('{}').digest('hex')}`}' };
       const isGenuine = await webhooks.verifyGitHub({ headers, bodyBytes }, handle);
       await host.http.fetch('https://api.example.com/x', { headers: { authorization: 'Bearer ' + handle } });
       return JSON.stringify({ isHandle: handle !== 't0ken', isGenuine });
     } };`,
    {
      secrets: { bearer: 't0ken' },
      host: { http: { fetch: { status: 204, headers: {} } } },
    },
  );
  t.match(await plugin.tool('send'), { content: [{ text: '{"isHandle":true,"isGenuine":true}' }] });
  const sent = plugin.calls.find(({ name }) => name === 'http.fetch');
  t.match(sent?.args, { init: { headers: { authorization: 'Bearer t0ken' } } });
});

soakTest(t, 'channel.send of the reference fails for a reply that the vendor refused', async (t) => {
  const fetch = ({ url }: { url: string }) => ({ headers: {}, status: url.endsWith('/open') ? 201 : 503 });
  const plugin = await open(t, surfaceExamples['channel.send'], { host: { http: { fetch } } });
  const send = (conversationKey: string) => plugin.send({ conversationKey, text: 'Hello', attachments: [] });
  await send('open');
  await t.rejects(send('closed'), { message: /The vendor responded with status 503/ });
});

t.test('handles of secrets, storage, logs and handshakes have the limits of the service', async (t) => {
  const plugin = await open(
    t,
    `const failing = (call) => call.then(() => 'done', ({ code, message }) => code + ' ' + message);
     tools.misuse = { description: 'Misuses', parameters: {}, handler: async () => {
       const handle = await host.secrets.get('bearer');
       const key = await host.secrets.get('key');
       const headers = { authorization: handle };
       host.log('the key is ' + key, { key });
       return JSON.stringify([
         await failing(host.http.fetch('http://api.example.com/', { headers })),
         await failing(host.http.fetch('https://api.example.com/?key=' + handle)),
         await failing(host.http.fetch('https://api.example.com/', { method: 'POST', body: handle })),
         await failing(host.http.fetch('https://api.example.com/', { headers: { host: 'x' } })),
         await failing(host.storage.set('a', 'x'.repeat(3_000_000))),
         await failing(host.storage.set('a', key)),
         await failing(host.storage.set('b', 'x'.repeat(600_000))),
         await failing(host.storage.set('b', 'x'.repeat(700_000))),
         await failing(host.storage.set('c', 'x'.repeat(600_000))),
         await failing(host.storage.delete('b')),
         await failing(host.storage.set('c', 'x'.repeat(600_000))),
         await failing(host.storage.set('a', { n: 10n })),
         await failing(host.http.fetch('https://api.example.com/', { method: 'POST', body: { a: 1 } })),
       ]);
     } };
     tools.late = { description: 'Fails later', parameters: {}, handler: () => {
       setTimeout(() => { throw new Error('too late'); });
       return 'ok';
     } };
     channel.receive = () => undefined;
     channel.handshake = () => ({ status: 200, headers: { 'x-hook-secret': 'a', 'x-other': 'b' } });
     commands.typo = { description: 'd', handler: () => ({ txt: 'x' }) };
     providers.acme = { models: ['m', 'odd', 'other', 'leak'].map((id) => ({ id, name: id })), async *chat(request) {
       if (request.model === 'odd') yield 'x';
       if (request.model === 'leak') {
         for (const text of ['s3cret', '-value']) yield { text };
         return { text: 's3cret-value', model: 'm', usage: { inputTokens: 1, outputTokens: 1 } };
       }
       yield { text: 'one' };
       return { text: 'two', model: 'm', ...(request.model === 'other' ? { usage: { inputTokens: 1, outputTokens: 1 } } : {}) };
     } };
     tools.leak = { description: 'Shows its key', parameters: {}, handler: async ({ fails }) => {
       const key = await host.secrets.get('key');
       if (fails) throw new Error('wrong key ' + key);
       return key;
     } };
     commands.leak = { description: 'd', handler: async () => { throw new Error('wrong key ' + await host.secrets.get('key')); } };
     middleware.inboundMessage = async (ctx) => ctx.cancel(await host.secrets.get('key'));`,
    { secrets: { bearer: 't0ken-value', key: 's3cret-value' } },
  );
  const [part] = (await plugin.tool('misuse')).content;
  const storedSecret = 'failed host.storage.set: value: holds a secret, which would be stored in plain text';
  t.same(JSON.parse(part?.type === 'text' ? part.text : ''), [
    'failed host.http.fetch: the secret bearer is sent over https: only',
    'failed host.http.fetch: the address holds the handle of the secret bearer, which works in headers only',
    'failed host.http.fetch: the body holds the handle of the secret bearer, which works in headers only',
    'failed host.http.fetch: the header host is set by the host and cannot be sent',
    'failed host.storage.set: a value has at most 1048576 bytes of JSON; divide it over several keys',
    storedSecret,
    'done',
    'done',
    'failed host.storage.set: storage is full: an installation keeps 1048576 bytes of keys and values',
    'done',
    'done',
    'failed host.storage.set: the arguments cannot be sent: args[1].n is a BigInt, which JSON cannot hold. Pass String(value)',
    'failed host.http.fetch: init.body: must be text or bytes',
  ]);
  t.match(plugin.logs[0], { message: 'the key is [secret key]', data: { key: '[secret key]' } });
  await plugin.tool('late');
  await eventually(async () => plugin.logs.some(({ message }) => message.startsWith('uncaught')));
  t.match(plugin.logs.at(-1)?.message, /^uncaught: Error: too late\n +at eval \(index\.ts:24:33\)$/);
  t.same(await plugin.handshake({ method: 'GET' }), { status: 200, headers: { 'x-hook-secret': 'a' } });
  t.match(plugin.logs.at(-1), { level: 'warn', source: 'system', message: /^channel\.handshake: not sent: x-other\./ });
  await t.rejects(plugin.command('typo'), {
    message: 'commands.typo: it returned no text: text: is required and must be text',
  });
  const chat = (model: string) => plugin.chat('acme', { model, messages: [{ role: 'user', text: 'x' }] });
  await t.rejects(chat('odd'), {
    message: 'providers.acme: it yielded a malformed delta: must be an object, not text',
  });
  await t.rejects(chat('other'), {
    message: 'providers.acme: the text that it returned does not begin with the text that it yielded',
  });
  await t.rejects(chat('m'), {
    message: 'providers.acme: it returned no completion: usage: is required and must be an object',
  });
  t.match(await plugin.tool('leak'), { content: [{ text: '[secret key]' }], isError: false });
  t.match(await plugin.tool('leak', { fails: true }), {
    content: [{ text: /wrong key \[secret key\]/ }],
    isError: true,
  });
  t.match(await plugin.hook('inboundMessage'), { reason: '[secret key]' });
  const failure = await plugin.command('leak').catch((error: Error) => error);
  t.match(failure, { name: 'PluginError', message: /wrong key \[secret key\]/ });
  t.notMatch((failure as Error).stack, /s3cret-value/);
  const shown: string[] = [];
  const request = { model: 'leak', messages: [{ role: 'user' as const, text: 'x' }] };
  const onDelta = ({ text = '' }): void => void shown.push(text);
  t.match(await plugin.chat('acme', request, { onDelta }), { text: '[secret key]' });
  t.equal(shown.join(''), '[secret key]');
});

t.test('a provider gets the requests that the service would send', async (t) => {
  const folder = await write(
    t,
    `providers.acme = {
      models: [{ id: 'large', name: 'L' }, { id: 'small', name: 'S' }],
      chat: ({ model }) => ({ text: model, model, usage: { inputTokens: 1, outputTokens: 1 } }),
    };`,
  );
  await using plugin = await openPlugin(folder);
  const messages = [{ role: 'user' as const, text: 'hello' }];
  t.match(await plugin.chat('acme', { messages }), { text: 'large' });
  t.match(await plugin.chat('acme', { messages, model: 'small' }), { text: 'small' });
  await t.rejects(plugin.chat('acme', { messages, model: 'huge' }), {
    message: 'providers.acme has no model with this name; it has large, small.',
  });
  await t.rejects(plugin.chat('acme', { messages: [] }), {
    message: /^the request: messages: /,
  });
  await t.rejects(plugin.chat('acme', { messages, maxTokens: 0 }), { message: /^the request: maxTokens: / });
});

t.test('the storage has as many keys as in the service', async (t) => {
  const storage = new ScriptedStorage();
  for (let at = 0; at < limits.storageKeys; at += 1) storage.set(`k${at}`, at);
  t.throws(() => storage.set('more', 1), { message: 'storage is full: an installation keeps 20000 keys' });
  storage.set('k0', 'changed');
  t.throws(() => storage.list(''), { message: 'there are more than 10000 keys: list a longer prefix' });
  t.same(storage.list('k1999'), ['k1999', ...Array.from({ length: 10 }, (_, digit) => `k1999${digit}`)]);
  storage.delete('k1');
  storage.set('more', 1);
});

/** Of several tests: each package takes the start of two processes. */
const kit = await open(
  t,
  `import { read } from './lib/deep.ts';
   tools.fail = { description: 'Fails', parameters: {}, handler: async () => read(await host.secrets.get('key')) };
   tools.towns = { description: 'Towns', parameters: {}, handler: async ({ name }) => host.assets.readText(name) };
   middleware.inboundMessage = (ctx) => { ctx.message.text += '!'; return ctx; };
   middleware.outboundMessage = (ctx) => ({ ...ctx, message: { ...ctx.message, text: ctx.message.text + '!' } });
   middleware.systemPrompt = (ctx) => new Promise((resolve) => {
     ctx.signal.addEventListener('abort', () => { host.log('aborted: ' + ctx.signal.reason.name); resolve(); });
     host.log('waits');
   });`,
  { secrets: { key: 's3cret-key' } },
  {
    'lib/deep.ts': `export function read(key: string): string {
      throw new Error(key);
    }`,
    'assets/towns.csv': 'Oslo',
  },
);

t.test('the log says where a tool failed, without secrets', async (t) => {
  t.match(await kit.tool('fail'), { isError: true, content: [{ text: '[secret key]' }] });
  t.match(kit.logs, [
    {
      level: 'error',
      source: 'system',
      message: 'tools.fail (error): [secret key]',
      data: { outcome: 'error', stack: /lib\/deep\.ts:2:13/ },
    },
  ]);
  t.notMatch(JSON.stringify(kit.logs), 's3cret');
});

t.test('a plugin reads the assets of its package', async (t) => {
  t.match(await kit.tool('towns', { name: 'towns.csv' }), { content: [{ text: 'Oslo' }] });
  t.match(await kit.tool('towns', { name: 'none.csv' }), {
    isError: true,
    content: [{ text: /no asset with this path/ }],
  });
});

t.test('a hook may return its context, changed in place or copied', async (t) => {
  for (const hook of ['inboundMessage', 'outboundMessage'] as const)
    t.match(await kit.hook(hook, { message: { text: 'hi' } }), {
      changed: true,
      context: { message: { text: 'hi!' } },
    });
});

t.test('hook passes its signal on to the handler', async (t) => {
  const caller = new AbortController();
  const answer = kit.hook('systemPrompt', {}, { signal: caller.signal });
  const logged = (message: string) => eventually(async () => kit.logs.some((line) => line.message === message));
  await logged('waits');
  caller.abort();
  await t.rejects(answer, { name: 'PluginError', message: /the caller aborted the call/ });
  await logged('aborted: AbortError');
});

soakTest(t, 'several packages with binary assets can be opened at once', async (t) => {
  const names = ['one', 'two', 'three', 'four'];
  const opened = await Promise.all(
    names.map(async (name) => {
      const code = `tools.${name} = { description: 'x', parameters: {}, handler: () => '${name}' };`;
      const folder = await write(t, code, { 'readme.md': HEAD.replace('name: Kit', `name: ${name}`) });
      await mkdir(join(folder, 'assets'));
      // No text, so that the package is built from a zip. Many bytes, so that writing and reading it take time.
      await writeFile(join(folder, 'assets', `${name}.bin`), randomBytes(1_000_000));
      const plugin = await openPlugin(folder);
      t.teardown(() => plugin.close());
      return plugin;
    }),
  );
  t.same(
    opened.map(({ name }) => name),
    names,
  );
  for (const [at, plugin] of opened.entries())
    t.match(await plugin.tool(names[at] ?? ''), { content: [{ text: names[at] }] });
});

t.test('a plugin reaches only granted and scripted host calls', async (t) => {
  const plugin = await open(
    t,
    `tools.look = { description: 'Looks', parameters: {}, handler: async () => ({ content: [{ type: 'json', json: {
       members: Object.keys(host).sort(), key: await host.secrets.get('key'), tone: host.settings.tone,
       page: (await host.http.fetch('https://api.example.com/x')).bodyText,
     } }] }) };
     tools.keep = { description: 'Keeps', parameters: { properties: { n: { type: 'integer' } } }, handler: async ({ n }) => {
       await host.storage.set('n', n); return String(await host.storage.get('n')); } };
     tools.stray = { description: 'Strays', parameters: {}, handler: async () => {
       try { await host.http.fetch('https://elsewhere.example.com/'); } catch (error) { return String(error.message); } } };`,
    {
      grants: ['host.storage', 'host.http:api.example.com'],
      secrets: { key: 's3cret' },
      settings: { tone: 'warm' },
      host: {
        http: {
          fetch: ({ url }) => ({ status: 200, headers: {}, bodyText: `at ${url}` }),
        },
      },
    },
  );
  const { content } = await plugin.tool('look');
  t.match(content, [{ json: { key: '[secret key]', tone: 'warm', page: 'at https://api.example.com/x' } }]);
  t.notMatch(JSON.stringify(content), /"(llm|workspace)"/);
  t.same(await plugin.tool('keep', { n: 7 }), { content: [{ type: 'text', text: '7' }], isError: false });
  await t.rejects(plugin.tool('keep', { n: 'x' }), { message: 'tools.keep: arguments.n must be integer.' });
  t.match((await plugin.tool('stray')).content, [{ text: /elsewhere\.example\.com is not a granted host/ }]);
  t.same(
    plugin.calls.map(({ name }) => name),
    ['secrets.get', 'http.fetch', 'storage.set', 'storage.get'],
  );
  t.match(plugin.discovered, { tools: [{ name: 'look' }, { name: 'keep' }, { name: 'stray' }] });
});

t.test('a provider that streams, from a vendor that the test scripts', async (t) => {
  const folder = await write(
    t,
    `providers.acme = {
      models: [{ id: 'm', name: 'M' }, { id: 'wrong', name: 'W' }],
      async *chat(request, { signal }) {
        const response = await fetch('https://api.example.com/answers', { signal });
        let text = '';
        for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
          text += piece;
          yield { text: piece };
        }
        return { text: request.model === 'wrong' ? 'Other' : text, model: 'm', usage: { inputTokens: 1, outputTokens: 1 } };
      },
    };
    tools.whole = { description: 'd', parameters: {}, handler: async () => {
      const { bodyText, bodyBytes, headers } = await host.http.fetch('https://api.example.com/answers');
      const response = await fetch('https://api.example.com/answers');
      return JSON.stringify([bodyText, bodyBytes.length, await response.text(), headers['content-type']]);
    } };`,
  );
  const seen: string[] = [];
  let arrived = Promise.withResolvers<void>();
  let isWaiting = true;
  // The vendor sends a piece when the one before has arrived.
  async function* answer() {
    for (const piece of ['one ', 'two ', 'three']) {
      yield piece;
      if (!isWaiting) continue;
      await arrived.promise;
      arrived = Promise.withResolvers();
    }
  }
  const stream = (): HostAnswer<'http.fetch'> => ({
    status: 200,
    headers: { 'content-type': 'text/plain' },
    body: answer(),
  });
  let fetch = stream;
  await using plugin = await openPlugin(folder, { host: { http: { fetch: () => fetch() } } });
  const ask = (model: string) => {
    const request = { model, messages: [{ role: 'user' as const, text: 'count' }] };
    const onDelta = ({ text = '' }): void => {
      seen.push(text);
      arrived.resolve();
    };
    return plugin.chat('acme', request, { onDelta });
  };
  t.match(await ask('m'), { text: 'one two three' });
  t.same(seen, ['one ', 'two ', 'three']);
  isWaiting = false;
  await t.rejects(ask('wrong'), { name: 'PluginError', message: /text that it returned does not begin with/ });
  const readWhole = async (type: string, body: Pick<WholeAnswer, 'bodyText' | 'bodyBytes'>): Promise<unknown> => {
    fetch = () => ({ status: 200, headers: { 'Content-Type': type }, ...body });
    const [part] = (await plugin.tool('whole')).content;
    return JSON.parse(part?.type === 'text' ? part.text : '');
  };
  const latin = 'text/plain; charset=iso-8859-1';
  const bytes = Uint8Array.of(0x67, 0xfc);
  t.same(await readWhole('text/plain', { bodyText: 'gü' }), ['gü', 3, 'gü', 'text/plain']);
  t.same(await readWhole('text/plain', { bodyText: 'gü', bodyBytes: new Uint8Array() }), ['gü', 3, 'gü', 'text/plain']);
  t.same(await readWhole(latin, { bodyBytes: bytes }), ['gü', 2, 'g\ufffd', latin]);
  t.same(await readWhole('image/png', { bodyBytes: Uint8Array.of(1) }), ['', 1, '\u0001', 'image/png']);
  const never = 'host.http.fetch is scripted with an answer that the service never gives: bodyText ';
  const wrong: readonly [string, Pick<WholeAnswer, 'bodyText' | 'bodyBytes'>, string][] = [
    ['text/plain', { bodyText: 'a', bodyBytes: bytes }, 'is not the text of bodyBytes: give one of them.'],
    ['image/png', { bodyText: 'a' }, 'is empty for the content-type image/png: give bodyBytes.'],
    [latin, { bodyText: 'gü' }, `cannot be written in the content-type ${latin}: give bodyBytes.`],
  ];
  for (const [type, body, why] of wrong) await t.rejects(readWhole(type, body), { message: never + why });
  fetch = () => ({ status: 200, headers: {}, bodyText: '\ufeffa,b' });
  await t.rejects(plugin.tool('whole'), {
    message: `${never}cannot be written in the content-type text/plain: give bodyBytes.`,
  });
  fetch = () => ({ status: 200, headers: {}, body: 'text' as never });
  await t.rejects(plugin.tool('whole'), {
    message:
      'host.http.fetch is scripted with an answer that the service never gives: body has no pieces: give an async iterable of texts or bytes, or bodyText or bodyBytes.',
  });
  fetch = () => ({ ...stream(), headers: { 'content-type': 'image/png' } });
  t.match(await plugin.tool('whole'), { content: [{ text: '["",13,"one two three","image/png"]' }] });
  fetch = stream;
  t.match(await plugin.tool('whole'), { content: [{ text: '["one two three",13,"one two three","text/plain"]' }] });
});

t.test('hooks, events and webhooks follow the rules of the service', async (t) => {
  const plugin = await open(
    t,
    `middleware.inboundMessage = (ctx) => {
       host.log('heard ' + ctx.message.text, { from: ctx.message.from });
       if (ctx.message.text === 'stop') ctx.cancel('not today');
       if (ctx.message.text === 'wrong') return { message: { id: 'other' } };
       if (ctx.message.text === 'throw') throw new TypeError('no such loaf');
       return { message: { text: ctx.message.text + '!' } };
     };
     middleware.todoDelete = (ctx) => { if (ctx.trigger === 'agent') ctx.cancel('Only a person may do this.'); };
     middleware.notifyDeliver = (ctx) => ctx.cancel(ctx.trigger);
     events.pluginUpdated = (event) => host.log.warn(event.type + ' ' + event.attempt + ' ' + event.data.toSemVer);
     channel.receive = (request) => ({ messages: [{ conversationKey: request.channelId, from: request.headers['x-from'], text: request.bodyText + request.bodyBytes.length }] });
     channel.handshake = (request) => request.query === 'ask' ? { status: 200, body: 'yes' } : undefined;
     compaction.summarize = ({ focus }) => focus === 'nothing' ? undefined : focus === 'long' ? 'x'.repeat(65_537) : focus;
     channel.handshakeOn = { jsonType: 'url_verification', header: 'x-hook' };
     const findSession = () => host.session.get().then(({ id }) => id, ({ message }) => message);
     commands.where = { description: 'd', handler: findSession };
     events.sessionDeleted = async () => host.log(await findSession());
     channel.send = async ({ deliveryId, attempt }) => host.log(await findSession(), { deliveryId, attempt });`,
    { host: { session: { get: { id: 's1', agentId: 'a1', channelId: null, createdAt: '2026-01-05T09:00:00Z' } } } },
  );
  const callInbound = (text: string) => plugin.hook('middleware.inboundMessage', { message: { text } });
  t.match(await callInbound('hi'), {
    action: 'continue',
    changed: true,
    context: { message: { text: 'hi!', id: 'm1' } },
  });
  t.match(await callInbound('stop'), { action: 'cancel', reason: 'not today', changed: false });
  await t.rejects(callInbound('wrong'), { name: 'PluginError', message: /message\.id cannot be changed/ });
  await t.rejects(callInbound('throw'), {
    name: 'PluginError',
    message: /middleware\.inboundMessage: .*no such loaf \(index\.ts:5:\d+\)/,
    stack: /index\.ts:5:/,
  });
  t.match(await plugin.hook('todoDelete'), { action: 'cancel', reason: 'Only a person may do this.' });
  t.match(await plugin.hook('todoDelete', {}, { trigger: 'user' }), { action: 'continue' });
  t.match(await plugin.hook('notifyDeliver'), { reason: 'schedule' });
  const summarize = (focus: string) => plugin.hook('compaction.summarize', { focus });
  t.match(await summarize('short'), { changed: true, context: { summary: 'short' } });
  t.match(await summarize('nothing'), { changed: false });
  const message = 'its answer: compaction.summarize returned ';
  await t.rejects(summarize(' \n'), { name: 'PluginError', message: `${message}a blank summary` });
  await t.rejects(summarize('long'), { name: 'PluginError', message: `${message}more than 65536 characters` });
  await plugin.event('pluginUpdated', { toSemVer: '2.0.0' }, { attempt: 3 });
  t.match(plugin.logs[0], {
    level: 'info',
    message: 'heard hi',
    data: { from: 'ann' },
    source: 'middleware.inboundMessage',
  });
  t.match(plugin.logs.at(-1), { level: 'warn', message: 'pluginUpdated 3 2.0.0', source: 'events.pluginUpdated' });
  t.equal(await plugin.command('where'), 's1');
  await plugin.event('sessionDeleted');
  const outside = 'host.session.get: host.session works only in a handler that runs for a session, before it answers';
  t.match(plugin.logs.at(-1), { message: outside, source: 'events.sessionDeleted' });
  await plugin.send({ conversationKey: 'c', text: 'x', attachments: [] });
  t.match(plugin.logs.at(-1), {
    message: outside,
    data: { deliveryId: 'delivery-1', attempt: 1 },
    source: 'channel.send',
  });
  await plugin.send({ conversationKey: 'c', text: 'x', attachments: [], deliveryId: 'd7', attempt: 2 });
  t.match(plugin.logs.at(-1), { data: { deliveryId: 'd7', attempt: 2 } });
  const received = await plugin.receive({ body: 'grün', headers: { 'X-From': 'vendor' } });
  t.same(received, { messages: [{ conversationKey: 'channel-1', from: 'vendor', text: 'grün5' }] });
  t.same(await plugin.handshake({ method: 'GET', query: 'ask' }), { status: 200, body: 'yes' });
  t.equal(await plugin.handshake({ method: 'GET' }), undefined);
  const body = '{"type": "url_verification"}';
  t.same(await plugin.handshake({ query: 'ask', body }), { status: 200, body: 'yes' });
  t.same(await plugin.handshake({ query: 'ask', headers: { 'X-Hook': 'a' } }), { status: 200, body: 'yes' });
  t.notMatch(plugin.logs.at(-1), { source: 'system' });
  for (const request of [{}, { method: 'PUT', body }, { body: '{"type": "event"}' }, { body: body.padEnd(65_537) }]) {
    const before = plugin.logs.length;
    t.equal(await plugin.handshake({ query: 'ask', ...request }), undefined);
    t.match(plugin.logs.slice(before), [
      { level: 'warn', source: 'system', message: /not called: the service queues/ },
    ]);
  }
});

soakTest(t, 'a hanging plugin is killed with an error', async (t) => {
  const late = waitWithoutProcessor(2_200);
  const plugin = await open(t, `middleware.systemPrompt = async () => { ${late} for (;;); };`);
  const message = /^middleware\.systemPrompt: it took longer than its (3000|2\d{3}) ms/;
  await t.rejects(plugin.hook('systemPrompt'), { name: 'PluginError', message });
  await t.rejects(plugin.hook('systemPrompt'), { name: 'PluginError' });
});

t.test('an incomplete or wrong script fails with one sentence', async (t) => {
  const code = `tools.ask = { description: 'Asks', parameters: {}, handler: async () => {
    try { return (await host.llm.complete({ messages: [{ role: 'user', text: 'x' }] })).text; } catch { return 'caught'; } } };`;
  const folder = await write(t, code);
  await using silent = await openPlugin(folder);
  await t.rejects(silent.tool('ask'), {
    message: /called host\.llm\.complete, and the test does not say .*\{ host: \{ llm: \{ complete: \(\) => \(\{"text"/,
  });
  await t.rejects(silent.tool('aks'), { message: /does not register tools\.aks; it registers tools\.ask/ });
  await t.rejects(silent.hook('middleware.systemPromt' as never), { message: /did you mean middleware\.systemPrompt/ });
  await t.rejects(silent.hook('systemPrompt'), { message: /does not register middleware\.systemPrompt/ });
  await t.rejects(silent.event('pluginInstaled' as never), { message: /did you mean pluginInstalled/ });
  await t.rejects(silent.receive({}), { message: /does not register channel\.receive/ });
  const wrong: readonly [PluginOptions, RegExp][] = [
    [{ grants: ['host.ssh'] }, /host\.ssh is not among the capabilities in readme\.md/],
    [{ settings: { tune: 'x' } }, /tune is not in readme\.md, which has tone/],
    [{ settings: { tone: 'loud' } }, /tone cannot be “loud”: readme\.md allows dry, warm/],
    [{ settings: { title: '' } }, /requires title, and the plugin would not run without it/],
    [{ secrets: { token: 'x' } }, /token is not in readme\.md, which has key/],
    [
      { host: { llm: { compleet: 1 } } as never },
      /host\.llm\.compleet does not exist; did you mean host\.llm\.complete/,
    ],
    [{ host: { ssh: { hosts: [] } } }, /host\.ssh\.hosts is scripted, but the plugin is not granted it/],
    [{ grants: [], host: { llm: { complete: () => ({}) as never } } }, /host\.llm\.complete is scripted, but/],
  ];
  // Each builds the package; `configure` below checks settings in the same way.
  const opened = amount({ quick: wrong.slice(-1), soak: wrong });
  for (const [options, message] of opened) await t.rejects(openPlugin(folder, options), { message });
  for (const [{ settings }, message] of wrong) if (settings) t.throws(() => silent.configure(settings), { message });
  if (!isSoak()) return;
  await using odd = await openPlugin(folder, { host: { llm: { complete: { text: 1 } as never } } });
  await t.rejects(odd.tool('ask'), { message: /scripted with an answer that the service never gives: text/ });
  await using failing = await openPlugin(folder, {
    host: {
      llm: {
        complete: () => {
          throw new Error('no model');
        },
      },
    },
  });
  t.match(
    await failing.tool('ask'),
    { content: [{ text: 'caught' }] },
    'a failure that is scripted is the plugin’s to catch',
  );
});

t.test('a request or an option with an unknown field is refused with those there are', async (t) => {
  const folder = await write(t, 'channel.receive = () => undefined; channel.handshake = () => undefined;');
  await using plugin = await openPlugin(folder);
  // The plugin's own request has this field.
  const request = { bodyText: '{}' } as never;
  const message = /^the request has no field bodyText; it has method, headers, body, query/;
  await t.rejects(plugin.receive(request), { message });
  await t.rejects(plugin.handshake(request), { message });
  await t.rejects(openPlugin(folder, { secret: { key: 'x' } } as never), {
    message: 'the second argument has no field secret; it has grants, settings, secrets, host, agent, session.',
  });
});

t.test('an invalid package is rejected with messages and locations', async (t) => {
  await t.rejects(openPlugin(join(await temporaryFolder(t), 'none')), { message: /There is no folder/ });
  const misspelt = await write(t, 'middleware.systemPromt = () => "x";');
  await t.rejects(openPlugin(misspelt), {
    message: /index\.ts:1:\d+: “middleware\.systemPromt” cannot be registered .*systemPrompt/,
  });
  const broken = await write(t, 'const x: = 1;');
  await t.rejects(openPlugin(broken), { message: /kit: index\.ts:1/ });
});
