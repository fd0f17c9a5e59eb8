/** Handles of secrets: the host puts the value into headers of declared hosts and checks signatures, and the child never holds it. */
import { createHmac, randomBytes } from 'node:crypto';
import { open, readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import t from 'tap';
import { verifySignature } from '../../../sandbox-child/webhook-signatures.ts';
import { SecretHandles } from '../../../supervisor/host/secret-handles.ts';
import { openAddress } from '../../examples/address.ts';
import { startVendor } from '../../examples/example.ts';
import { serve } from '../../fixtures/listening-server.ts';
import { eventually } from '../../runner/eventually.ts';
import { asCommand, runCommand, startSupervisorFixture } from '../supervisor-fixture.ts';
import { pluginWith } from './http-target.ts';

/** Answers with the request's address and headers, or redirects to the `to` of the query or of a header. */
const echo = (request: IncomingMessage, response: ServerResponse): void => {
  const { 'x-to': header, 'x-coding': coding } = request.headers;
  const to = new URL(request.url ?? '', 'http://x').searchParams.get('to') ?? header;
  if (to !== undefined) return void response.writeHead(307, { location: String(to) }).end();
  if (coding !== undefined) return void response.writeHead(200, { 'content-encoding': String(coding) }).end();
  response.writeHead(200, { 'content-type': 'application/json', 'x-seen': JSON.stringify(request.headers) });
  response.end(JSON.stringify(request.headers));
};

t.test('a value goes into headers of the declared hosts only, also after redirects', async (t) => {
  const seen: Record<string, unknown>[] = [];
  const server = await serve(t, (request, response) => {
    seen.push(request.headers);
    echo(request, response);
  });
  const plugin = await pluginWith(t, ['api.test', 'other.test', '*.wild.test'], {
    secrets: {
      key: 'value-of-the-key',
      broken: 'two\nlines of text',
      short: 'abc',
    },
    uses: {
      key: ['http:api.test', 'http:one.wild.test'],
      broken: ['http:api.test'],
      short: ['http:api.test'],
      gone: ['http:api.test'],
    },
  });
  for (const host of ['api.test', 'other.test', 'one.wild.test', 'two.wild.test']) {
    plugin.dns.set(host, ['127.0.0.1']);
    plugin.allow(`${host}:${server.port}`);
  }
  const at = (host: string, path = '') => `http://${host}:${server.port}/${path}`;
  const key = plugin.handleOf('key');
  const authorization = { authorization: `Bearer ${key}`, 'x-both': `${key} ${plugin.handleOf('short')}` };

  const answer = await plugin.fetch(at('api.test'), { headers: { authorization: `Bearer ${key}` } });
  t.equal(seen.at(-1)?.authorization, 'Bearer value-of-the-key', 'the server gets the value');
  for (const text of [answer.bodyText, Buffer.from(answer.bodyBytes).toString(), answer.headers['x-seen']]) {
    t.match(text, '"authorization":"Bearer [secret key]"', 'a server that repeats it does not show it to the plugin');
    t.notMatch(text, 'value-of-the-key');
  }
  await plugin.fetch(at('one.wild.test'), { headers: { authorization: key } });
  t.equal(seen.at(-1)?.authorization, 'value-of-the-key', 'below a granted *.wild.test');

  await plugin.fetch(at('api.test', `?to=${encodeURIComponent(at('api.test', 'next'))}`), { headers: authorization });
  t.match(seen.at(-1), { authorization: 'Bearer value-of-the-key', 'x-both': /^value-of-the-key / }, 'the same host');
  const count = seen.length;
  await plugin.fetch(at('api.test', `?to=${encodeURIComponent(at('other.test'))}`), { headers: authorization });
  t.equal(seen.length, count + 2);
  t.notMatch(JSON.stringify(seen.at(-1)), /value-of-the-key|secret:/, 'neither value nor handle reach another host');

  const redirected = /redirected to an address that contains a secret, which is not allowed/;
  const repeated: readonly [headers: Record<string, string>, message: RegExp][] = [
    [{ 'x-to': `https://${key}/` }, redirected],
    [{ 'x-to': `http://${key}.wild.test:${server.port}/` }, redirected],
    [{ 'x-to': `${key}://api.test/` }, redirected],
    [{ 'x-coding': key }, /content-encoding that is not understood; gzip and deflate are$/],
  ];
  for (const [headers, message] of repeated) {
    for (const answering of [
      plugin.fetch(at('api.test'), { headers }),
      plugin.open('one', at('api.test'), { headers }),
    ]) {
      const error = await answering.catch((thrown) => thrown);
      t.match(error, { message }, 'an error names no value that the server repeats');
      t.notMatch(error.message, /value-of/i);
    }
  }
  t.notMatch(plugin.dns.queries.join(), /value-of/, 'and no such name is looked up');
  const guess = await plugin.fetch(at('other.test'), { headers: { guess: 'value-of-the-key' } });
  t.match(guess.bodyText, '"guess":"value-of-the-key"', 'a host that no secret may be sent to cannot try values');

  const refused: readonly [url: string, headers: Record<string, string>, message: RegExp][] = [
    [
      at('other.test'),
      { a: key },
      /the secret key is declared for http:api\.test, http:one\.wild\.test, not for http:other\.test/,
    ],
    [at('two.wild.test'), { a: key }, /not for http:two\.wild\.test/],
    [at('api.test'), { a: plugin.handleOf('gone') }, /the secret gone is not set/],
    [at('api.test'), { a: plugin.handleOf('broken') }, /"a" is not a header that can be sent/],
    [at('api.test', `?key=${key}`), {}, /the address holds the handle of the secret key, which works in headers only/],
  ];
  for (const [url, headers, message] of refused) {
    const before = seen.length;
    const error = await plugin.fetch(url, { headers }).catch((thrown) => thrown);
    t.match(error, { message });
    t.notMatch(error.message, /value-of-the-key|two\nlines/);
    t.equal(seen.length, before, 'nothing was sent');
  }
  await t.rejects(plugin.fetch(at('api.test'), { method: 'POST', body: `key=${key}` }), { message: /the body holds/ });
  await plugin.fetch(at('api.test'), { headers: { a: `secret:key:${'0'.repeat(32)}` } });
  t.equal(seen.at(-1)?.a, `secret:key:${'0'.repeat(32)}`, 'a guessed handle is a text like any other');
});

t.test('a server shows the value to the plugin in no later answer either', async (t) => {
  const agents: unknown[] = [];
  const server = await serve(t, (request, response) => {
    if (request.url === '/sign-in') agents.push(request.headers['user-agent']);
    response.end(JSON.stringify({ agents }));
  });
  const secrets = { key: 'value-of-the-key', blank: ' value-of-another-key ', free: 'a-value-that-it-reads' };
  const uses = { key: ['http:api.test'], blank: ['http:api.test'] };
  const plugin = await pluginWith(t, ['api.test'], { secrets, uses });
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  const at = (path: string) => `http://api.test:${server.port}/${path}`;
  for (const agent of [plugin.handleOf('key'), plugin.handleOf('blank'), secrets.free])
    await plugin.fetch(at('sign-in'), { headers: { 'user-agent': agent } });
  const seen = '{"agents":["[secret key]","[secret blank]","a-value-that-it-reads"]}';
  t.equal((await plugin.fetch(at('sign-ins'))).bodyText, seen, 'to a request without the handle');
  const { bodyBytes, isOpen } = await plugin.open('one', at('sign-ins'));
  const rest = isOpen ? await plugin.readAll('one') : '';
  t.equal(`${Buffer.from(bodyBytes)}${rest}`, seen, 'nor in a body that is read while it arrives');
});

t.test('without TLS a value is sent only to a target that the operator named', async (t) => {
  const plugin = await pluginWith(t, ['api.test'], { secrets: { key: 'value' }, uses: { key: ['http:api.test'] } });
  plugin.dns.set('api.test', ['93.184.215.14']);
  const headers = { authorization: plugin.handleOf('key') };
  await t.rejects(plugin.fetch('http://api.test/', { headers }), {
    message: /the secret key is sent over https: only/,
  });
});

t.test('a request computes the handle of a secret once, and only if a header may hold it', async (t) => {
  const handles = new SecretHandles();
  const made: string[] = [];
  const make = handles.make.bind(handles);
  handles.make = (installationId, name) => {
    made.push(name);
    return make(installationId, name);
  };
  const reads: string[] = [];
  const names = Array.from({ length: 64 }, (_, n) => `key${n}`);
  const source = {
    installationId: 'i1',
    names,
    read: async (name: string) => {
      reads.push(name);
      return { value: `value of ${name}`, uses: null };
    },
  };
  const target = { hostname: 'api.test', isSafe: true };
  const fill = (text: (n: number) => string) => {
    const headers = Object.fromEntries(Array.from({ length: 98 }, (_, n) => [`x-${n}`, text(n)]));
    return handles.fillHeaders(headers, target, source);
  };
  const proof = '0'.repeat(32);
  t.match(await fill((n) => `secret: secret:undeclared${n}:${proof} secret:key2:${proof.slice(1)}`), {
    'x-7': `secret: secret:undeclared7:${proof} secret:key2:${proof.slice(1)}`,
  });
  t.same(made, [], 'no header has the form of a declared handle');
  const handle = make('i1', 'key1');
  const forged = `secret:key1:${proof}`;
  for (let hop = 0; hop < 6; hop += 1)
    t.match(await fill(() => `${forged} secret:${handle}x`), { 'x-97': `${forged} secret:value of key1x` });
  t.same(made, ['key1'], 'once, also after redirects');
  t.equal(reads.length, 6, 'the value is read once for each hop');
});

t.test('a handle is found inside the form of another one', async (t) => {
  const handles = new SecretHandles();
  const name = 'a'.repeat(32);
  const source = { installationId: 'i1', names: [name], read: async () => ({ value: 'value', uses: null }) };
  const headers = { x: `secret:xsecret:${handles.make('i1', name).slice('secret:'.length)}` };
  const target = { hostname: 'api.test', isSafe: true };
  t.same(await handles.fillHeaders(headers, target, source), { x: 'secret:xvalue' });
});

const authorizations: unknown[] = [];
const vendor = await startVendor(t, ['api.test'], (request, response) => {
  authorizations.push(request.headers.authorization);
  echo(request, response);
});
const fixture = await startSupervisorFixture(t, { http: vendor.http });

t.test('the memory of the child holds the handle, and never the value', async (t) => {
  const value = `canary-${randomBytes(12).toString('hex')}`;
  const known = `canary-${randomBytes(12).toString('hex')}`;
  const signing = `canary-${randomBytes(12).toString('hex')}`;
  const [url = ''] = Object.values(vendor.addresses);
  const installed = await fixture.install({
    slug: 'handler',
    capabilities: ['host.http:api.test', 'host.session'],
    secrets: { key: value, known, signing },
    secretUses: { key: ['http:api.test'], signing: ['webhooks'] },
    code: `let kept = [];
      channel.receive = async (request) => {
        const isGenuine = await webhooks.verifyGitHub(request, await host.secrets.get('signing'));
        return { messages: [{ conversationKey: 'c', from: 'ann', text: isGenuine ? 'genuine' : 'forged', attachments: [] }] };
      };
      ${asCommand(`
        const handle = await host.secrets.get('key');
        kept = [handle, await host.secrets.get('known')];
        const answer = await host.http.fetch(args.url, { headers: { authorization: 'Bearer ' + handle } });
        const scheme = await host.secrets.verify('GitHub', {}, new Uint8Array(2), handle).catch((error) => error.message);
        host.log(handle, { [handle]: answer.bodyText });
        return { handle, body: answer.bodyText, wrong: scheme, known: kept[1].length };`)}`,
  });
  const result = await runCommand(fixture, 'handler', { url });
  t.same(authorizations, [`Bearer ${value}`]);
  t.match(result, { handle: /^secret:key:[0-9a-f]{32}$/, body: /\[secret key\]/, known: known.length });
  t.match(result.wrong, /the secret key is declared for http:api\.test, not for webhooks/);

  const address = await openAddress(t, fixture, installed);
  const body = '{"from":"github"}';
  const sign = (key: string) => ({
    'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
  });
  await address.post(body, sign(signing));
  await address.post(body, sign('another key'));
  await eventually(async () => (await address.sessions())[0]?.texts.length === 2);
  t.same((await address.sessions())[0]?.texts, ['genuine', 'forged'], 'the supervisor verifies');

  const pid = fixture.supervisor.fleet.getPid(installed.installationId) ?? 0;
  const found = await searchMemory(pid, { handle: result.handle, known, value, signing });
  if (found === null) {
    t.ok(true, 'the memory of the child', { skip: 'this user may not read the memory of other processes' });
    return;
  }
  t.match(found, { handle: true, known: true }, 'the search finds what is there');
  t.match(found, { value: false, signing: false });
});

t.test('a malformed secret behind a handle does not fit, and is an error only where no other is left', async (t) => {
  const own = fixture.withNewAccount();
  await own.install({
    slug: 'malformed',
    capabilities: ['host.session'],
    secrets: { signing: Buffer.from('a secret of twenty-four b').toString('base64'), previous: 'no base64!' },
    secretUses: { signing: ['webhooks'], previous: ['webhooks'] },
    code: asCommand(`
      const request = { headers: {}, bodyBytes: new Uint8Array(2) };
      const [signing, previous] = [await host.secrets.get('signing'), await host.secrets.get('previous')];
      const check = (secrets) => webhooks.verifyStandard(request, secrets).catch((error) => error.message);
      const foreign = 'secret:signing:' + '0'.repeat(32);
      return { one: await check([signing, previous]), none: await check([previous]), foreign: await check([signing, foreign]) };`),
  });
  const result = await runCommand(own, 'malformed', {});
  t.equal(result.one, false);
  t.match(result.none, /the secret is not base64/);
  t.match(result.foreign, /not a valid handle/, 'another error is not skipped');
});

t.test('of a header with many signatures, the first 64 parts are read', async (t) => {
  const bodyBytes = Buffer.from('{}');
  const seconds = String(Math.floor(Date.now() / 1000));
  const sign = (text: string) => createHmac('sha256', 'a key').update(text).update(bodyBytes);
  const ask = async (parts: number) => [
    await verifySignature(
      'Stripe',
      {
        headers: {
          'stripe-signature': `t=${seconds},${'v0=0,'.repeat(parts)}v1=${sign(`${seconds}.`).digest('hex')}`,
        },
        bodyBytes,
      },
      'a key',
    ),
    await verifySignature(
      'Standard',
      {
        headers: {
          'webhook-id': 'm1',
          'webhook-timestamp': seconds,
          'webhook-signature': `${'v0,0 '.repeat(parts + 1)}v1,${sign(`m1.${seconds}.`).digest('base64')}`,
        },
        bodyBytes,
      },
      Buffer.from('a key').toString('base64'),
    ),
  ];
  t.same(await ask(62), [true, true]);
  t.same(await ask(63), [false, false]);
});

const CHUNK_BYTES = 4 * 1024 * 1024;

/** Which texts are in a process’s memory, in UTF-8 or UTF-16. Null: it cannot be read. */
async function searchMemory<Names extends string>(
  pid: number,
  texts: Readonly<Record<Names, string>>,
): Promise<Record<Names, boolean> | null> {
  const names = Object.keys(texts) as Names[];
  const found = Object.fromEntries(names.map((name) => [name, false])) as Record<Names, boolean>;
  const memory = await open(`/proc/${pid}/mem`).catch(() => null);
  if (memory === null) return null;
  let bytesRead = 0;
  try {
    for (const line of (await readFile(`/proc/${pid}/maps`, 'utf8')).split('\n')) {
      const [, from = '', to = ''] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
      for (let at = Number.parseInt(from, 16); at < Number.parseInt(to, 16); at += CHUNK_BYTES) {
        // Pieces overlap, so that a text at a border is found.
        const length = Math.min(CHUNK_BYTES + 256, Number.parseInt(to, 16) - at);
        const piece = await memory.read(Buffer.alloc(length), 0, length, at).catch(() => null);
        if (piece === null) continue;
        bytesRead += piece.bytesRead;
        for (const name of names)
          found[name] ||=
            piece.buffer.includes(texts[name]) || piece.buffer.includes(Buffer.from(texts[name], 'utf16le'));
      }
    }
  } finally {
    await memory.close();
  }
  return bytesRead === 0 ? null : found;
}
