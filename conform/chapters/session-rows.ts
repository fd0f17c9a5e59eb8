/** Contract: session API and addresses. */
import { randomUUID } from 'node:crypto';
import { readPages } from '../account.ts';
import { ensure, expect, holding, isList, isNumber, isText, isTime } from '../expect.ts';
import { readUntil } from '../log-watch.ts';
import { type Chapter, type Row, row, unchecked } from '../row.ts';
import type { Run } from '../run.ts';

const transcript = async (run: Run, session: string) =>
  (await run.own.need(run.own.session('GET', `/sessions/${session}/messages`))).items;
const append = (run: Run, session: string, messages: readonly object[]) =>
  run.own.session('POST', `/sessions/${session}/messages`, { messages });
const appendTexts = (run: Run, session: string, texts: readonly string[]) => {
  const messages = texts.map((text) => ({ role: 'user', text }));
  return run.own.need(append(run, session, messages));
};
const declared = (operation: string): Row =>
  row(`The session API has ${operation}.`, (run) => run.requireOperation('sessions', operation));

const rpc = async (run: Run, path: string, method: string, params: object, connection?: string) => {
  const headers = {
    accept: 'application/json, text/event-stream',
    ...(connection ? { 'mcp-session-id': connection } : {}),
  };
  const answer = await run.own.session(
    'POST',
    path,
    { jsonrpc: '2.0', id: run.nextNumber(), method, params },
    { headers },
  );
  const text = /^data: ?(.*)$/m.exec(answer.text)?.[1];
  return { answer, message: text === undefined ? answer.body : JSON.parse(text) };
};
const mcp = (run: Run) =>
  run.once('mcp', async () => {
    await run.kit();
    const path = `/sessions/${await run.session()}/mcp`;
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'conform', version: '1' } };
    const { answer, message } = await rpc(run, path, 'initialize', params);
    return { path, message, connection: answer.headers.get('mcp-session-id') ?? '' };
  });

export const sessions: Chapter = {
  title: 'Contract: session API',
  rows: [
    row('POST /sessions: {agentId, agentName?, channelId?} → 201 session.', async (run) => {
      const answer = await run.own.session('POST', '/sessions', { agentId: 'a', agentName: 'Ann' });
      expect(answer, {
        status: 201,
        body: { id: isText, agentId: 'a', agentName: 'Ann', channelId: null, createdAt: isTime },
      });
      expect(answer.headers.get('location'), new RegExp(`/sessions/${answer.body.id}$`), 'Location');
    }),
    row('POST /sessions: channelId must be the caller’s own.', async (run) => {
      expect(await run.own.session('POST', '/sessions', { agentId: 'a', channelId: 'none' }), {
        status: 404,
        body: { code: 'not_found' },
      });
    }),
    row('GET /sessions and GET /sessions/{id}.', async (run) => {
      const id = await run.newSession('listed');
      expect((await run.own.session('GET', '/sessions?limit=1000')).body.items, holding({ id, agentId: 'listed' }));
      expect(await run.own.session('GET', `/sessions/${id}`), { status: 200, body: { id } });
    }),
    row('Sessions of one account are not another’s.', async (run) => {
      const id = await run.session();
      const { body } = await run.other.session('GET', '/sessions?limit=1000');
      ensure(!body.items.some((item: { id: string }) => item.id === id), 'another account’s session is listed');
      for (const path of ['', '/messages', '/tools', '/hooks'])
        expect((await run.other.session('GET', `/sessions/${id}${path}`)).status, 404, path);
    }),
    row('POST messages appends to the transcript; GET lists them, oldest first.', async (run) => {
      const session = await run.newSession('writer');
      expect(
        await append(run, session, [
          { role: 'user', text: 'a' },
          { role: 'assistant', text: 'b', data: { c: 1 } },
        ]),
        { status: 200, body: { items: [{ id: isText }, { id: isText }] } },
      );
      expect(await transcript(run, session), [
        { role: 'user', text: 'a', at: isTime },
        { role: 'assistant', text: 'b', data: { c: 1 } },
      ]);
    }),
    row('A transcript keeps its order across 9/10, 99/100 and 999/1000, with pages.', async (run) => {
      const session = await run.newSession('pager');
      const texts = Array.from({ length: 1_005 }, (_, index) => String(index + 1));
      await appendTexts(run, session, texts.slice(0, 1_000));
      await appendTexts(run, session, texts.slice(1_000));
      const seen: string[] = [];
      const readPage = (cursor: string) => run.own.session('GET', `/sessions/${session}/messages?limit=95${cursor}`);
      for await (const items of readPages<{ text: string }>(readPage)) seen.push(...items.map(({ text }) => text));
      ensure(seen.join() === texts.join(), `read ${seen.length} messages, or in another order`);
    }),
    row('A message with a known id is not added again.', async (run) => {
      const session = await run.newSession('repeater');
      for (let times = 0; times < 2; times += 1)
        await append(run, session, [{ id: 'same', role: 'user', text: 'once' }]);
      expect(await transcript(run, session), [{ id: 'same', text: 'once' }]);
    }),
    row('Text comes back as it was sent.', async (run) => {
      const session = await run.newSession('texts');
      const texts = ['\\u0000', '𐀀 🏳️‍🌈 e\u0301', '\u2028\u202e', '__proto__', '"\\/\b\f\n\r\t'];
      await appendTexts(run, session, texts);
      expect(
        (await transcript(run, session)).map(({ text }: { text: string }) => text),
        texts,
      );
    }),
    row('Text that cannot be stored is refused and never altered.', async (run) => {
      for (const text of ['a\0b', 'a\ud800'])
        expect(await append(run, await run.session(), [{ role: 'user', text }]), {
          status: 400,
          body: { code: 'bad_request' },
        });
    }),
    row('POST hooks/{hook}: {context} → {action, context, reason, cancelledBy, trace}.', async (run) =>
      expect(await run.hook('outboundMessage', { message: { id: 'm', text: 'x' }, target: 't' }), {
        status: 200,
        body: { action: 'continue', context: { target: 't' }, reason: null, cancelledBy: null, trace: isList },
      }),
    ),
    row('hook is without its middleware. prefix; a misspelt one names the nearest.', async (run) =>
      expect(await run.hook('outboundMesage', {}), { status: 404, body: { detail: /outboundMessage/ } }),
    ),
    row('POST hooks/{hook}: a malformed context is 400 and names the field.', async (run) =>
      expect(await run.hook('outboundMessage', { message: { id: 'm' }, target: 't' }), {
        status: 400,
        body: { errors: holding({ field: /text/ }) },
      }),
    ),
    row('POST compaction: {messages?, focus?} → {summary, source, notice}.', async (run) => {
      await run.kit();
      const { status, body } = await run.own.session('POST', `/sessions/${await run.session()}/compaction`, {
        focus: 'change S',
      });
      expect({ status, body }, { status: 200, body: { summary: 'S', source: 'plugin', notice: null } });
    }),
    row('POST compaction takes messages in the form of POST messages.', async (run) => {
      await run.kit();
      const { body } = await run.own.session('POST', `/sessions/${await run.session()}/compaction`, {
        focus: 'report',
        messages: [{ role: 'user', text: 'as appended' }],
      });
      expect(JSON.parse(body.summary).texts, ['as appended']);
    }),
    row('POST compaction: without messages, the plugin gets the session’s transcript.', async (run) => {
      const session = await run.newSession('own transcript');
      await run.kit();
      await appendTexts(run, session, ['remembered']);
      const { body } = await run.own.session('POST', `/sessions/${session}/compaction`, { focus: 'report' });
      expect(JSON.parse(body.summary).texts, ['remembered']);
    }),
    row('GET tools: items {name: "<slug>__<tool>", description, parameters, installationId, slug}.', async (run) => {
      const { slug, installationId } = await run.kit();
      const { body } = await run.own.session('GET', `/sessions/${await run.session()}/tools`);
      expect(
        body.items,
        holding({
          name: `${slug}__answer`,
          description: isText,
          parameters: { required: ['kind'] },
          installationId,
          slug,
        }),
      );
    }),
    row('POST tools/{name}: {callId, arguments} → {content, isError}.', async (run) =>
      expect(await run.callTool('answer', { kind: 'text' }), {
        status: 200,
        body: { content: [{ type: 'text' }], isError: false },
      }),
    ),
    row('POST tools/{name}: a misspelt name is 404 and names the nearest.', async (run) => {
      const { slug } = await run.kit();
      const answer = await run.own.session('POST', `/sessions/${await run.session()}/tools/${slug}__anser`, {
        arguments: {},
      });
      expect(answer, { status: 404, body: { detail: new RegExp(`${slug}__answer`) } });
    }),
    row('Tool result: 256 KiB at most.', async (run) =>
      expect(await run.callTool('answer', { kind: 'large' }), { status: 502, body: { code: 'plugin_failed' } }),
    ),
    row('The same for commands: code.', async (run) => {
      const { slug } = await run.kit();
      const at = `/sessions/${await run.session()}/commands`;
      expect((await run.own.session('GET', at)).body.items, holding({ name: `${slug}__echo`, kind: 'code' }));
      expect(await run.own.session('POST', `${at}/${slug}__echo`, { input: 'x' }), {
        status: 200,
        body: { text: 'echo x' },
      });
    }),
    row('The same for commands: prompts.', async (run) => {
      const { slug } = await run.kit();
      const answer = await run.own.session('POST', `/sessions/${await run.session()}/commands/${slug}__greet`, {
        input: 'Ann',
      });
      expect(answer, { status: 200, body: { text: /Greet Ann warmly/ } });
    }),
    row('The same for skills.', async (run) => {
      const { slug } = await run.kit();
      const answer = await run.own.session('GET', `/sessions/${await run.session()}/skills/${slug}__baking`);
      expect(answer, { status: 200, body: { description: 'How to bake', text: /Use flour/ } });
    }),
    row('The same for providers.', async (run) => {
      const { slug } = await run.kit();
      const at = `/sessions/${await run.session()}/providers`;
      expect(
        (await run.own.session('GET', at)).body.items,
        holding({ name: `${slug}__conform`, models: [{ id: 'parrot' }] }),
      );
      const request = { model: 'parrot', messages: [{ role: 'user', text: 'polly' }] };
      expect(await run.own.session('POST', `${at}/${slug}__conform`, { request }), {
        status: 200,
        body: { text: 'polly', usage: { inputTokens: isNumber } },
      });
    }),
    row('POST /sessions takes an optional key: the same key of one account opens the same session.', async (run) => {
      const key = randomUUID();
      const start = () => run.own.session('POST', '/sessions', { agentId: 'keyed', key });
      const first = await start();
      expect(first, { status: 201 });
      expect(await start(), { status: 200, body: { id: first.body.id } });
      await run.own.session('DELETE', `/sessions/${first.body.id}`);
    }),
    row('POST clear removes the messages.', async (run) => {
      const session = await run.newSession('emptied');
      await appendTexts(run, session, ['a']);
      expect(await run.own.session('POST', `/sessions/${session}/clear`, {}), {
        status: 200,
        body: { clearedAt: isTime },
      });
      expect(await transcript(run, session), []);
    }),
    row('POST clear runs sessionClear first: 409 cancelled on veto.', async (run) => {
      const session = await run.newSession('kept');
      await run.kit();
      await appendTexts(run, session, ['a']);
      expect(await run.own.session('POST', `/sessions/${session}/clear`, { reason: 'cancel keep it' }), {
        status: 409,
        body: { code: 'cancelled', detail: /keep it/ },
      });
      expect(await transcript(run, session), holding({ text: 'a' }));
    }),
    row('DELETE /sessions/{id}.', async (run) => {
      const session = await run.newSession('deleted');
      expect((await run.own.session('DELETE', `/sessions/${session}`)).status, 204);
      expect((await run.own.session('GET', `/sessions/${session}`)).status, 404);
    }),
    row('GET /sessions/stream: server-sent events of messages and notices as they are added.', async (run) => {
      const session = await run.newSession('streamed');
      const response = await fetch(`${run.own.sessionsUrl}/sessions/stream`, {
        headers: { authorization: `Bearer ${run.own.token}` },
        // A message waits while an older transaction of another client of the database may commit one before it.
        signal: AbortSignal.timeout(45_000),
      });
      expect(response.headers.get('content-type'), /^text\/event-stream/);
      await appendTexts(run, session, ['seen in the stream']);
      const text = await readUntil(response, 'seen in the stream');
      ensure(/event: ?message/.test(text) && text.includes(session), `the stream sent ${text.slice(-300)}`);
    }),
    declared('POST /sessions/{sessionId}/turns'),
    declared('GET /sessions/{sessionId}/turns/{turnId}/prompt'),
    declared('POST /sessions/{sessionId}/turns/{turnId}/calls/{callId}'),
    declared('POST /sessions/{sessionId}/turns/{turnId}/output'),
    declared('POST /sessions/{sessionId}/turns/{turnId}/end'),
    declared('GET /sessions/{sessionId}/todos'),
    declared('GET /sessions/{sessionId}/notifications'),
    declared('POST /sessions/{sessionId}/mail'),
    declared('POST /sessions/{sessionId}/ssh'),
    declared('POST /mcp'),
    row('/sessions/{id}/mcp is a Model Context Protocol server over streamable HTTP.', async (run) => {
      const { message, connection } = await mcp(run);
      expect(message, { result: { protocolVersion: isText, serverInfo: { name: isText } } });
      ensure(connection !== '', 'the answer has no mcp-session-id');
    }),
    row('MCP: the session’s tools.', async (run) => {
      const { path, connection } = await mcp(run);
      const { slug } = await run.kit();
      const { message } = await rpc(run, path, 'tools/list', {}, connection);
      expect(message.result.tools, holding({ name: `${slug}__answer` }));
      const call = await rpc(
        run,
        path,
        'tools/call',
        { name: `${slug}__answer`, arguments: { kind: 'text' } },
        connection,
      );
      expect(call.message.result.content, [{ type: 'text', text: 'as text' }]);
    }),
    row('MCP: commands as prompts, skills as resources.', async (run) => {
      const { path, connection } = await mcp(run);
      const prompts = await rpc(run, path, 'prompts/list', {}, connection);
      const found = await rpc(run, path, 'resources/list', {}, connection);
      ensure(JSON.stringify(prompts.message).includes('greet'), 'no prompt greet');
      ensure(JSON.stringify(found.message).includes('baking'), 'no resource baking');
    }),
    row('The session API has its own OpenAPI document at /openapi.json and page at /docs.', async (run) => {
      expect(await run.document('sessions'), {
        openapi: /^3\.1/,
        paths: { '/sessions': { post: { requestBody: { content: {} } } } },
      });
      expect((await run.own.session('GET', '/docs')).headers.get('content-type'), /^text\/html/);
    }),
    unchecked(
      'npm start prints one line “bulkhead ready <console url>” and stops cleanly.',
      'is about starting, not about a running deployment',
    ),
    unchecked('npm run -s token -- <user> prints a bearer token.', 'is a command on the operator’s machine'),
    row('The deployment says how to sign in and where the session API is.', async ({ own }) =>
      expect(await own.get('/sign-in'), {
        status: 200,
        body: { sessionApiUrl: (url: unknown) => url === null || typeof url === 'string' },
      }),
    ),
  ],
};
