/** Contract: host, globals and events. */
import { ensure, expect, holding, isNumber, isText, isTime, oneOf } from '../expect.ts';
import { packageOf } from '../packages.ts';
import { asker } from '../plugins/asker.ts';
import { type Chapter, lateRow, type Row, row, unchecked } from '../row.ts';
import { callHandled, installHandled, signedText } from './secret-handles.ts';

const isType = (name: string, type: 'function' | 'object' | 'undefined' | 'absent', sentence: string): Row =>
  row(sentence, async (run) => {
    const found = (await run.tool('types', { names: [name] }))[name];
    ensure(type === 'absent' ? found === 'undefined' : found === type, `typeof ${name} is ${found}`);
  });
const GLOBALS = {
  object: [
    'console',
    'crypto.subtle',
    'globalThis',
    'Math',
    'JSON',
    'Reflect',
    'Intl',
    'self',
    'global',
    'performance',
  ],
  function: [
    ...[
      'setTimeout',
      'setInterval',
      'clearTimeout',
      'clearInterval',
      'URL',
      'URLSearchParams',
      'TextEncoder',
      'TextDecoder',
    ],
    ...['atob', 'btoa', 'structuredClone', 'AbortController', 'AbortSignal', 'AbortSignal.any', 'AbortSignal.timeout'],
    ...[
      'crypto.getRandomValues',
      'crypto.randomUUID',
      'queueMicrotask',
      'Date',
      'RegExp',
      'Proxy',
      'WeakRef',
      'BigInt',
    ],
    ...['Headers', 'Request', 'Response', 'FormData', 'Blob', 'EventTarget', 'ReadableStream', 'performance.now'],
  ],
} as const;
const ABSENT = [
  'process',
  'require',
  'module',
  'WebAssembly',
  'SharedArrayBuffer',
  'Atomics',
  'Buffer',
  'XMLHttpRequest',
  'WebSocket',
];

export const host: Chapter = {
  title: 'Contract: host, globals and events',
  rows: [
    row('host.log(message, data?) and .debug/.info/.warn/.error.', async (run) => {
      const { watch } = await run.kit();
      await run.tool('log', { mark: 'each' });
      for (const level of ['info', 'debug', 'warn', 'error'])
        expect(await watch.find(level, ({ message }) => message === `${level} each`), { level });
    }),
    row('A BigInt or cycle in log data costs that field, not the whole payload.', async (run) => {
      const { data } = await run.writeLog('cycle', 'odd');
      expect(data, { ok: 1, big: '1', self: isText });
    }),
    row('console writes to host.log.', (run) => run.writeLog('printed', 'console')),
    row('Log data has 16 KiB at most, then truncated.', async (run) => {
      const line = await run.writeLog('cut', 'long');
      ensure(
        line.truncated && String(line.data).length <= 16_384,
        `truncated ${line.truncated}, ${String(line.data).length} characters`,
      );
    }),
    row('host.settings holds the settings.', async (run) =>
      expect((await run.tool('secret')).settings, { units: isText }),
    ),
    row('host.secrets.get(name) returns the value, or null.', async (run) => {
      expect(await run.tool('secret', { value: 'conform-secret-value' }), { same: true });
      expect(await run.host('secrets.get', 'unknown'), { result: null });
    }),
    row(
      'A secret with `use` is a handle: the host verifies signatures with it, and the plugin never sees the value.',
      async (run) => {
        const { value, args } = signedText();
        const answer = await callHandled(run, value, args);
        expect(answer, { isText: true, isValue: false, holdsValue: false, isGenuine: true, isForgedGenuine: false });
      },
    ),
    row('A secret with `use` says so in what the plugin can reach.', async (run) => {
      const { capabilities } = await run.own.need(run.own.get(`/marketplace/${(await installHandled(run)).slug}`));
      ensure(capabilities.includes('secrets.key:webhooks'), String(capabilities));
    }),
    row('host.session.get().', async (run) =>
      expect((await run.host('session.get')).result, {
        id: await run.session(),
        agentId: 'conform-agent',
        createdAt: isTime,
      }),
    ),
    row('host.session.messages() reads the newest messages, oldest first.', async (run) => {
      const session = await run.newSession('reader');
      const texts = Array.from({ length: 12 }, (_, index) => `t${index + 1}`);
      await run.own.need(
        run.own.session('POST', `/sessions/${session}/messages`, {
          messages: texts.map((text) => ({ role: 'user', text })),
        }),
      );
      const { result } = await run
        .tool('host', { member: 'session.messages', args: [{ limit: 5 }] }, session)
        .catch(() => run.tool('host', { member: 'session.messages', args: [5] }, session));
      expect(
        result.map(({ text }: { text: string }) => text),
        texts.slice(-5),
      );
    }),
    row('host.session.post(text) and .notice(text) add to the transcript.', async (run) => {
      const session = await run.newSession('poster');
      await run.tool('host', { member: 'session.post', args: ['posted'] }, session);
      await run.tool('host', { member: 'session.notice', args: ['noticed'] }, session);
      const { body } = await run.own.session('GET', `/sessions/${session}/messages`);
      expect(body.items, [
        { role: 'assistant', text: 'posted' },
        { role: 'notice', text: 'noticed' },
      ]);
    }),
    row('host.agents.list(), .create(), .update() and .remove().', async (run) => {
      const { result } = await run.host('agents.create', { name: 'Conform', instructions: 'Wait.' });
      expect(result, { id: isText, name: 'Conform', instructions: 'Wait.' });
      expect((await run.host('agents.update', result.id, { name: 'Renamed' })).result, { name: 'Renamed' });
      expect((await run.host('agents.list')).result, holding({ id: result.id, name: 'Renamed' }));
      await run.host('agents.remove', result.id);
      ensure(
        !(await run.host('agents.list')).result.some(({ id }: { id: string }) => id === result.id),
        'the agent is still there',
      );
    }),
    row('host.agents.send() runs agentMessage first.', async (run) => {
      const { result } = await run.host('agents.create', { name: 'Receiver' });
      expect(await run.host('agents.send', result.id, 'hello there'), { result: { id: isText } });
      const refused = await run.callTool('host', { member: 'agents.send', args: [result.id, 'cancel not today'] });
      expect(refused.body, { isError: true, content: [{ text: /not today/ }] }, 'a message that agentMessage cancels');
      await run.host('agents.remove', result.id);
    }),
    row('host.models.list().', async (run) => ensure(Array.isArray((await run.host('models.list')).result), 'no list')),
    row('host.workspace.write(), .readText(), .read(), .list() and .remove().', async (run) => {
      const path = `${run.slug('notes')}/today.md`;
      await run.host('workspace.write', path, 'grüezi');
      expect(await run.host('workspace.readText', path), { result: 'grüezi' });
      expect((await run.host('workspace.read', path)).result, { bytes: [...Buffer.from('grüezi')] });
      expect(
        (await run.host('workspace.list', run.slug('notes'))).result,
        holding({ path: /today\.md$/, sizeBytes: 7, updatedAt: isTime }),
      );
      await run.host('workspace.remove', path);
      expect((await run.callTool('host', { member: 'workspace.readText', args: [path] })).body, { isError: true });
    }),
    row('host.workspace stays inside the account’s workspace, never outside.', async (run) => {
      for (const path of ['../../etc/passwd', '/etc/passwd', 'a/../../b'])
        expect(
          (await run.callTool('host', { member: 'workspace.readText', args: [path] })).body,
          // A file that is not there would be an error, too.
          { isError: true, content: [{ text: /relative to the workspace|must not contain/ }] },
          path,
        );
    }),
    row('host.media.put(), .get() and .remove().', async (run) => {
      const { result } = await run.host('media.put', { bytes: [104, 105] }, run.slug('hi.txt'));
      expect(result, { id: isText, sizeBytes: 2 });
      const found = await run.host('media.get', result.id);
      expect(found.result, { content: { bytes: [104, 105] } });
      await run.host('media.remove', result.id);
      expect((await run.callTool('host', { member: 'media.get', args: [result.id] })).body, { isError: true });
    }),
    row('host.ssh.hosts().', async (run) => ensure(Array.isArray((await run.host('ssh.hosts')).result), 'no list')),
    unchecked(
      'host.ssh.run() runs the three SSH hooks.',
      'needs an SSH host of the operator, and would run a command on it',
    ),
    lateRow(
      'host.llm.complete({model?, system?, messages, …}) asks a model that another plugin provides.',
      async (run) => {
        const { ask } = await asker(run);
        expect((await ask('what is a parrot?')).context, { notify: { text: 'what is a parrot?' } });
      },
    ),
    row('host.storage.set(), .get(), .list() and .delete().', async (run) => {
      await run.host('storage.set', 'row', { a: [1, null] });
      expect(await run.host('storage.get', 'row'), { result: { a: [1, null] } });
      expect((await run.host('storage.list', 'ro')).result, ['row']);
      await run.host('storage.delete', 'row');
      expect(await run.host('storage.get', 'row'), { result: null });
    }),
    row('host.storage holds 1 MiB per installation.', async (run) => {
      const value = 'x'.repeat(200_000);
      const calls = Array.from({ length: 6 }, (_, index) =>
        run.callTool('host', { member: 'storage.set', args: [`large ${index}`, value] }),
      );
      const answers = await Promise.all(calls);
      for (let index = 0; index < 6; index += 1) await run.host('storage.delete', `large ${index}`);
      ensure(
        answers.some(({ body }) => body.isError),
        'six values of 200,000 characters fit',
      );
    }),
    row('host.http.fetch: declared hosts only.', async (run) =>
      expect((await run.callTool('host', { member: 'http.fetch', args: ['https://example.com/'] })).body, {
        isError: true,
        content: [{ text: /not a granted host|declare/ }],
      }),
    ),
    row('host.http.fetch: no private addresses.', async (run) =>
      expect((await run.callTool('host', { member: 'http.fetch', args: ['http://127.0.0.1/'] })).body, {
        isError: true,
        content: [{ text: /address/ }],
      }),
    ),
    row('A member that was not granted does not exist.', async (run) =>
      expect((await run.callTool('host', { member: 'llm.complete', args: [{}] })).body, { isError: true }),
    ),
    ...GLOBALS.object.map((name) => isType(name, 'object', `Global: ${name}.`)),
    ...GLOBALS.function.map((name) => isType(name, 'function', `Global: ${name}.`)),
    ...ABSENT.map((name) => isType(name, 'absent', `No ${name}.`)),
    row('fetch only where host.http was granted.', async (run) => {
      const found = (await run.tool('types', { names: ['fetch'] })).fetch;
      expect(found, 'function', 'typeof fetch with host.http');
      const code =
        "tools.fetch = { description: 'Type of fetch', parameters: { type: 'object' }, handler: () => typeof fetch };";
      const { slug } = await run.installDraft('unconnected', packageOf(code));
      const path = `/sessions/${await run.session()}/tools/${slug}__fetch`;
      const { content } = await run.until('the start of the plugin', async () => {
        const { status, body } = await run.own.session('POST', path, { arguments: {} });
        return status === 200 && body;
      });
      expect(content, [{ text: 'undefined' }], 'typeof fetch without host.http');
    }),
    row('An undeclared name is a ReferenceError at run time.', async (run) =>
      expect(await run.tool('realm'), { undeclared: 'ReferenceError' }),
    ),
    row('No name of Node is reachable through a constructor.', async (run) =>
      expect(await run.tool('realm'), { builtCode: oneOf('undefined', 'EvalError', 'TypeError') }),
    ),
    row('Assigning an inherited name on an own object works.', async (run) =>
      expect(await run.tool('realm'), { inherited: 'own' }),
    ),
    row('crypto.subtle, crypto.randomUUID and structuredClone work.', async (run) =>
      expect(await run.tool('realm'), { digest: [0xca, 0x97], uuid: /^[0-9a-f-]{36}$/, clone: { a: [1] } }),
    ),
    row(
      'Events: envelope {id, type, occurredAt, attempt, installationId, pluginId, versionId, semVer, data}.',
      async (run) => {
        const { watch, installationId, id, versionId } = await run.kit();
        await run.newSession('enveloped');
        const line = await watch.find('sessionStarted', ({ data }) => data?.data?.agentId === 'enveloped');
        expect(line.data, {
          id: isText,
          type: 'sessionStarted',
          occurredAt: isTime,
          attempt: isNumber,
          installationId,
          pluginId: id,
          versionId,
          semVer: '1.0.0',
        });
      },
    ),
    row('Events are listed for the console: type, state, attempts, data.', async (run) => {
      const { installationId } = await run.kit();
      const { body } = await run.own.get(`/installations/${installationId}/events`);
      expect(body.items, holding({ type: isText, state: isText, attempts: isNumber, occurredAt: isTime }));
    }),
    unchecked(
      'Events: 8 attempts with backoff and jitter, then a dead letter that the console can replay.',
      'takes more than half an hour',
    ),
    unchecked(
      'pluginUninstalled: 3 attempts in 5 minutes at most; then the removal goes on regardless.',
      'takes minutes',
    ),
  ],
};
