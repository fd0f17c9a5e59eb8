/** Requests of the session client whose response breaks off, and answers that are not the service's. */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import t, { type Test } from 'tap';
import { connect, type SessionClient } from '../../sdk/session/session.ts';
import { serve } from '../fixtures/listening-server.ts';
import { moveClocks } from '../fixtures/moved-clocks.ts';

type Answer = (response: ServerResponse) => void;

/** A service that gives these answers in order, and repeats the last one. */
async function startService(test: Test, ...answers: readonly [Answer, ...Answer[]]) {
  let asked = 0;
  const { url } = await serve(test, (request, response) => {
    request.resume();
    const answer = answers[asked] ?? answers.at(-1);
    asked += 1;
    answer?.(response);
  });
  return { url, client: connect({ url, token: 'x', retryForMs: 5_000 }), countAsked: () => asked };
}

const sendJson =
  (body: object): Answer =>
  (response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
/** Sends the head and the start of a response, and then the connection breaks. */
const breakOff: Answer = (response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
  response.write('{"items":[', () => response.destroy());
};

t.test('a response that breaks off is asked for again, if the call is idempotent', async (t) => {
  const list = await startService(t, breakOff, sendJson({ items: [], nextCursor: null }));
  t.same(await list.client.list(), { items: [], nextCursor: null });
  const media = await startService(t, breakOff, (response) => void response.writeHead(200).end('bytes'));
  t.equal(new TextDecoder().decode(await media.client.open('s').readMedia('m')), 'bytes');
  const turn = await startService(t, breakOff, sendJson({ state: 'ended' }));
  t.match(await turn.client.open('s').turn('t').end(), { state: 'ended' });
  for (const { countAsked } of [list, media, turn]) t.equal(countAsked(), 2);
});

t.test('the time of retries starts with the first failure, however long the call ran before', async (t) => {
  const clocks = moveClocks(t);
  const breakOffLate: Answer = (response) => {
    clocks.monotonicMs += 60_000;
    // A wall clock that is set back must not add to it.
    clocks.wallMs -= 3_600_000;
    breakOff(response);
  };
  const late = await startService(t, breakOffLate, sendJson({ state: 'ended' }));
  t.match(await late.client.open('s').turn('t').end(), { state: 'ended' });
  t.equal(late.countAsked(), 2);
  const always = await startService(t, breakOffLate);
  await t.rejects(always.client.open('s').turn('t').end());
  t.equal(always.countAsked(), 2, 'a second failure after the time is the last one');
});

t.test('a response that breaks off is a lost connection, if the call may have taken effect', async (t) => {
  const { client, countAsked } = await startService(t, breakOff);
  await t.rejects(client.open('s').runCommand('x__y'), {
    name: 'ConnectionLostError',
    message: 'The connection broke during POST /sessions/s/commands/x__y. The call may have taken effect.',
  });
  t.equal(countAsked(), 1);
});

t.test('the service’s own text says why a call may have taken effect', async (t) => {
  const detail =
    'The command ran, but the plugin “Redactor” failed on its output. Check what it did before you run it again.';
  const unjudged: Answer = (response) =>
    void response
      .writeHead(502, { 'content-type': 'application/problem+json' })
      .end(JSON.stringify({ code: 'outcome_unknown', detail }));
  const { client, countAsked } = await startService(t, unjudged);
  const { services } = client.open('s');
  await t.rejects(services.runSsh({ host: 'h', command: 'deploy' }, { trigger: 'agent' }), {
    name: 'ConnectionLostError',
    message: detail,
  });
  t.equal(countAsked(), 1);
});

t.test('the start of a session is repeated if it has a key, which opens the same session', async (t) => {
  const created = sendJson({ id: 's1', agentId: 'a' });
  const keyed = await startService(t, breakOff, created);
  t.equal((await keyed.client.start({ agentId: 'a', key: 'k' })).id, 's1');
  const unkeyed = await startService(t, breakOff, created);
  await t.rejects(unkeyed.client.start({ agentId: 'a' }), { name: 'ConnectionLostError' });
  t.equal(unkeyed.countAsked(), 1);
});

t.test('an answer that is not JSON says which address gave it, and what to do', async (t) => {
  const page: Answer = (response) =>
    void response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>');
  const { client, url, countAsked } = await startService(t, page);
  await t.rejects(client.list(), {
    message: `The response to GET ${url}/sessions is not JSON. If this is the REST interface, use the address of the session API (default: http://localhost:4010). Runtimes read it from BULKHEAD_URL, \`bulkhead\` reads it from BULKHEAD_SESSION_URL.`,
  });
  t.equal(countAsked(), 1);
});

t.test('a redirect is named and not followed', async (t) => {
  const elsewhere = await startService(t, sendJson({ items: [] }));
  const sendTo =
    (location: string): Answer =>
    (response) =>
      void response.writeHead(301, { location }).end('moved');
  const moved = await startService(t, sendTo(`${elsewhere.url}/sessions`));
  const movedMessage = `${moved.url} redirects to ${elsewhere.url}. Use that address.`;
  await t.rejects(moved.client.start({ agentId: 'a', key: 'k' }), { name: 'AddressError', message: movedMessage });
  await t.rejects(moved.client.list(), { message: movedMessage });
  t.equal(moved.countAsked(), 2);
  t.equal(elsewhere.countAsked(), 0);
  const signIn = await startService(t, sendTo('/sign-in'));
  await t.rejects(signIn.client.list(), {
    message: `${signIn.url}/sessions redirects to ${signIn.url}/sign-in. Use that address.`,
  });
  const nowhere = await startService(t, (response) => void response.writeHead(302).end());
  await t.rejects(nowhere.client.list(), {
    message: `${nowhere.url}/sessions redirects to another address. Use that address.`,
  });
});

t.test('a call without an id, or with an undefined one, is repeated with the same random id', async (t) => {
  const bodies: { readonly id?: string }[] = [];
  const { url } = await serve(t, async (request, response) => {
    const chunks = await request.toArray();
    const { messages, ...body } = JSON.parse(Buffer.concat(chunks).toString());
    bodies.push(messages?.[0] ?? body);
    if (bodies.length % 2 === 1) breakOff(response);
    else sendJson({ id: 'x', show: '', action: 'continue' })(response);
  });
  const session = connect({ url, token: 'x' }).open('s');
  const { services } = session;
  const id = undefined as unknown as string;
  const trigger = 'agent';
  const calls: readonly (() => Promise<unknown>)[] = [
    () => services.createTodo({ id, title: 'Bake' }, { trigger }),
    () => services.scheduleReminder({ id, text: 'Bake', at: '2030-01-01T00:00:00Z' } as never, { trigger }),
    () => services.sendMail({ id, toAgentId: 'a', text: 'Bake' }, { trigger }),
    () => session.append([{ id, role: 'user', text: 'Bake' }]),
    () => session.openTurn({ id, text: 'Bake' } as never),
    () => session.reply('Bake', { id }),
    () =>
      session
        .turn('t')
        .stream(Readable.from(['Bake']), { id })
        .next(),
  ];
  for (const call of calls) {
    await call();
    const [first, second] = bodies.splice(0);
    t.match(first?.id, /^[0-9a-f-]{36}$/);
    t.equal(second?.id, first?.id);
  }
});

t.test('a token that cannot be sent is refused at once, and is not in the error', async (t) => {
  const { url, connections } = await serve(t, (_request, response) =>
    sendJson({ items: [], nextCursor: null })(response),
  );
  const tokens = ['secret-one\nsecret-two', '\nsecret-on\nsecret-two', 'secret-one’s', 'secret-one\0'];
  for (const token of [...tokens, () => 'secret-one\r\nsecret-two']) {
    const client = connect({ url, token, retryForMs: 60_000 });
    const error = await client.list().catch((thrown: unknown) => thrown);
    t.match(error, { status: 401, code: 'unauthenticated', message: /^The token cannot be sent: character 11 is / });
    t.notMatch(String(error), /secret-|two/);
  }
  t.equal(connections(), 0);
});

t.test('a token is sent without white space and a byte order mark at its ends', async (t) => {
  const sent: unknown[] = [];
  const { url } = await serve(t, ({ headers }, response) => {
    sent.push(headers.authorization);
    sendJson({ items: [], nextCursor: null })(response);
  });
  const tokens = [' x\n', '\nx', '\r\nx', '\t x\r\n', '\ufeffx', 'x\ufeff', '\u2028x', 'x\u2028'];
  for (const token of tokens) await connect({ url, token, retryForMs: 0 }).list();
  t.same(
    sent,
    tokens.map(() => 'Bearer x'),
  );
});

t.test('an address without http:// is refused before a request', async (t) => {
  for (const url of ['localhost:4010', '127.0.0.1:4010', '', 'ftp://localhost', 'http://'])
    t.throws(() => connect({ url, token: 'x' }), {
      message: `The address “${url}” does not begin with http:// or https://. Give one such as http://localhost:4010.`,
    });
});

const sendEvents =
  (...events: readonly string[]): Answer =>
  (response) =>
    void response
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .end(events.map((one) => `${one}\n\n`).join(''));

/** The pieces of a streamed completion, and its answer. */
async function readCompletion(client: SessionClient) {
  const stream = client.open('s').streamCompletion('p', { messages: [{ role: 'user', text: 'How many?' }] });
  const texts: string[] = [];
  let next = await stream.next();
  for (; !next.done; next = await stream.next()) texts.push(next.value);
  return { texts, answer: next.value };
}

t.test('a comment in the stream of an answer is no piece of it', async (t) => {
  const [two, loaves] = ['event: delta\ndata: {"text":"Two "}', 'event: delta\ndata: {"text":"loaves."}'];
  const answer = 'event: answer\ndata: {"text":"Two loaves."}';
  const { client } = await startService(t, sendEvents(two, ': heartbeat', loaves, answer));
  t.match(await readCompletion(client), { texts: ['Two ', 'loaves.'], answer: { text: 'Two loaves.' } });
});

t.test('line separators of Unicode end no line of a stream', async (t) => {
  const text = 'a\u2028b\u2029c\u0085d';
  const piece = await startService(
    t,
    sendEvents(`event: delta\ndata: {"text":"${text}"}`, `event: answer\ndata: {"text":"${text}"}`),
  );
  t.match(await readCompletion(piece.client), { texts: [text], answer: { text } });
  const message = JSON.stringify({ sessionId: 's', message: { id: 'm', role: 'user', text } });
  const stream = await startService(t, sendEvents(`id: 1\nevent: message\ndata: ${message}`));
  t.match(await stream.client.added().next(), { value: { position: '1', message: { text } } });
});

t.test('a stream that was open survives a redirect and a refused certificate', async (t) => {
  const maintain: Answer = (response) => void response.writeHead(302, { location: '/maintenance' }).end();
  const announce = (id: number): Answer => {
    const added = JSON.stringify({ sessionId: 's', message: { id: `m${id}`, role: 'user', text: 'hi' } });
    return sendEvents(`id: ${id}\nevent: message\ndata: ${added}`);
  };
  for (const follow of ['added', 'events'] as const) {
    const { url } = await startService(t, announce(1), maintain, announce(2), announce(3));
    let asked = 0;
    // As Node reports it. The request after the third answer meets it.
    const refuseOne: typeof fetch = (...request) => {
      asked += 1;
      return asked === 4
        ? Promise.reject(new TypeError('fetch failed', { cause: { code: 'CERT_HAS_EXPIRED' } }))
        : fetch(...request);
    };
    const stream = connect({ url, token: 'x', fetch: refuseOne })[follow]();
    for (const position of ['1', '2', '3']) t.match(await stream.next(), { value: { position } });
    t.equal(asked, 5);
    await stream.return(undefined);
  }
  const closed = await startService(t, maintain);
  await t.rejects(closed.client.added().next(), { name: 'AddressError' }, 'at the start it fails at once');
  await t.rejects(closed.client.inbox().next(), { name: 'AddressError' });
  t.equal(closed.countAsked(), 2);
});
