/** The web's globals in a real child: a plugin gets what Node's own answer, and none of Node's objects. */
import t from 'tap';
import { WEB_CLASSES } from '../../sandbox-child/web-globals.ts';
import type { HostCall } from '../../supervisor/children/child.ts';
import { HostCallRefusal } from '../../supervisor/children/child-errors.ts';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../supervisor/children/jailed-child.ts';
import { webCases } from './web-cases.ts';

const jail = await testJail(t);
const AsyncFunction = (async () => undefined).constructor as new (code: string) => () => Promise<unknown>;

t.test('a plugin gets what Node answers', async (t) => {
  const child = testChild(t, jail);
  const listed = Object.entries(webCases).map(([name, code]) => `${JSON.stringify(name)}: async () => { ${code} }`);
  await child.load(
    bundleOf(`const cases = { ${listed.join(',\n')} };
      tools.run = { description: 'test', parameters: {}, handler: (name) => cases[name]() };`),
  );
  for (const [name, code] of Object.entries(webCases)) {
    const expected = JSON.parse(JSON.stringify(await new AsyncFunction(code)()));
    const outcome = await callTool(child, 'run', name);
    t.same(JSON.parse(JSON.stringify(outcome)), { outcome: 'answered', answer: expected }, name);
  }
  t.same(child.lines, [], 'nothing is reported as uncaught');
});

/** Bodies that arrive in parts; what follows the last one is an error, unless it is `three`. */
const scriptedBodies = {
  parts: new Map<string, string[]>(),
  closed: [] as string[],
  mostOpen: 0,
  open(id: string, parts: string[]) {
    this.parts.set(id, parts);
    this.mostOpen = Math.max(this.mostOpen, this.parts.size);
    return { status: 200, headers: {}, bodyText: '', bodyBytes: Buffer.from('one '), isOpen: true };
  },
  answer(member: string, id: string) {
    const parts = this.parts.get(id);
    if (member === 'http.closeBody') {
      this.closed.push(id);
      this.parts.delete(id);
      return undefined;
    }
    const part = parts?.shift();
    if (part === undefined || part === 'three') this.parts.delete(id);
    if (part === undefined) throw new HostCallRefusal('failed', 'fetch: the server sent nothing');
    return { bytes: Buffer.from(part), isEnd: part === 'three' };
  },
};

/** The responses of scripted servers behind `fetch`. */
async function answerHttp(call: HostCall): Promise<unknown> {
  const [id, url, init] = call.args as [
    string,
    string,
    { method?: string; body?: unknown; headers?: Record<string, string> },
  ];
  if (call.member !== 'http.openBody') return scriptedBodies.answer(call.member, id);
  if (url.includes('//parts.')) return scriptedBodies.open(id, ['two ', 'three']);
  if (url.includes('//broken.')) return scriptedBodies.open(id, ['two ']);
  if (url.includes('//cookies.')) {
    const setCookies = ['a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT', 'b=2'];
    const headers = { 'set-cookie': setCookies.join(', '), 'x-two': 'a, b' };
    return { status: 200, headers, setCookies, bodyText: '', bodyBytes: new Uint8Array() };
  }
  if (url.includes('//refused.'))
    throw new HostCallRefusal('failed', 'refused.example is not a granted host; declare it');
  if (url.includes('//never.')) return new Promise(() => undefined);
  const body = init.body instanceof Uint8Array ? { bytes: [...init.body] } : init.body;
  const bodyBytes = new TextEncoder().encode(JSON.stringify({ url, ...init, body }));
  return {
    status: url.endsWith('/204') ? 204 : 201,
    headers: { 'content-type': 'application/json' },
    bodyText: '',
    bodyBytes,
  };
}

t.test('fetch goes through host.http.fetch', async (t) => {
  const child = testChild(t, jail, { onHostCall: answerHttp });
  const rows: Readonly<Record<string, [code: string, answer: unknown]>> = {
    'a get': [
      `const r = await fetch('https://a.example/x'); return [r.status, r.ok, r.url, r.type, r.redirected, await r.json(), r instanceof Response];`,
      [
        201,
        true,
        'https://a.example/x',
        'basic',
        false,
        { url: 'https://a.example/x', method: 'GET', headers: {} },
        true,
      ],
    ],
    'text stays text, and what the host sets is left out': [
      `return (await fetch(new URL('https://a.example/'), { method: 'post', body: 'grüezi', headers: { Connection: 'keep-alive', 'Content-Length': '7', authorization: 'Bearer secret:x:0' } })).json();`,
      {
        url: 'https://a.example/',
        method: 'POST',
        body: 'grüezi',
        headers: { authorization: 'Bearer secret:x:0', 'content-type': 'text/plain;charset=UTF-8' },
      },
    ],
    'a stream as the body of a Request': [
      `const body = ReadableStream.from([new Uint8Array([1]), new Uint8Array([2])]); return (await (await fetch(new Request('https://a.example/', { method: 'PUT', body, duplex: 'half' }))).json()).body;`,
      { bytes: [1, 2] },
    ],
    'the body arrives as a stream': [
      `let text = ''; for await (const part of (await fetch('https://a.example/')).body.pipeThrough(new TextDecoderStream())) text += part; return JSON.parse(text).method;`,
      'GET',
    ],
    'cookies of a response stay apart': [
      `const { headers } = await fetch('https://cookies.example/'); return [headers.getSetCookie(), headers.get('x-two')];`,
      [['a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT', 'b=2'], 'a, b'],
    ],
    'no body with 204': [`const r = await fetch('https://a.example/204'); return [r.status, r.body];`, [204, null]],
    'a refusal is a TypeError with the sentence of the host': [
      `return fetch('https://refused.example/').catch((e) => [e instanceof TypeError, e.message, e.cause.message, e.cause.code]);`,
      [true, 'fetch failed', 'refused.example is not a granted host; declare it', 'failed'],
    ],
    'no redirects': [
      `return (await (await fetch('https://a.example/', { redirect: 'error' })).json()).redirect;`,
      'error',
    ],
    'a redirect mode that the host does not have': [
      `return fetch('https://a.example/', { redirect: 'manual' }).catch((e) => [e.message, e.cause.message]);`,
      ['fetch failed', 'redirect “manual” does not exist in a plugin: the host follows redirects to granted hosts'],
    ],
    'abort ends the wait': [
      `const c = new AbortController(); const p = fetch('https://never.example/', { signal: c.signal }).catch((e) => [e.name, e.code]); c.abort(); return [await p, await fetch('https://a.example/', { signal: AbortSignal.abort(7) }).catch((e) => e), await fetch('https://never.example/', { signal: AbortSignal.timeout(5) }).catch((e) => e.name)];`,
      [['AbortError', 20], 7, 'TimeoutError'],
    ],
    'abort ends the body that is sent': [
      `const c = new AbortController(); let cancelled; const body = new ReadableStream({ pull(s) { s.enqueue(new Uint8Array(1)); return new Promise((ok) => setTimeout(ok)); }, cancel(r) { cancelled = r; } });
       const p = fetch('https://a.example/', { method: 'POST', body, duplex: 'half', signal: c.signal }).catch((e) => e); await new Promise((ok) => setTimeout(ok)); c.abort('stop'); return [await p, cancelled];`,
      ['stop', 'stop'],
    ],
    'a body in parts, as a whole and one by one': [
      `const all = []; for await (const part of (await fetch('https://parts.example/')).body) all.push(new TextDecoder().decode(part));
       return [await (await fetch('https://parts.example/')).text(), all];`,
      ['one two three', ['one ', 'two ', 'three']],
    ],
    'leaving the loop over a body ends its request': [
      `for await (const part of (await fetch('https://parts.example/')).body) return new TextDecoder().decode(part);`,
      'one ',
    ],
    'abort in a body': [
      `const c = new AbortController(); const r = await fetch('https://parts.example/', { signal: c.signal }); const reader = r.body.getReader();
       const first = await reader.read(); c.abort(); return [first.done, await reader.read().catch((e) => e.name)];`,
      [false, 'AbortError'],
    ],
    'a body that breaks off': [
      `return fetch('https://broken.example/').then((r) => r.text()).catch((e) => [e instanceof TypeError, e.message, e.cause.message]);`,
      [true, 'terminated', 'fetch: the server sent nothing'],
    ],
    'forty requests whose bodies are read later: sixteen at once': [
      `const all = Array.from({ length: 40 }, () => fetch('https://parts.example/').then((r) => r.text())); return new Set(await Promise.all(all)).size;`,
      1,
    ],
    'twenty responses that are there before the first body is read': [
      `const all = await Promise.all(Array.from({ length: 20 }, () => fetch('https://parts.example/'))); return [...new Set(await Promise.all(all.map((r) => r.text())))];`,
      ['one two three'],
    ],
    'sixteen responses whose bodies are never read, whole and broken': [
      `const left = []; for (let i = 0; i < 16; i += 1) left.push(await fetch(i % 2 ? 'https://parts.example/' : 'https://broken.example/'));
       const text = await (await fetch('https://parts.example/')).text(); return [text, (await Promise.allSettled(left.map((r) => r.text()))).filter((end) => end.status === 'rejected').length];`,
      ['one two three', 8],
    ],
    'headers of a response are immutable': [
      `return fetch('https://a.example/').then((r) => r.headers.set('a', 'b')).catch((e) => e.name);`,
      'TypeError',
    ],
  };
  const listed = Object.entries(rows).map(([name, [code]]) => `${JSON.stringify(name)}: async () => { ${code} }`);
  const bundle = `const cases = { ${listed.join(',\n')} };
    tools.run = { description: 'test', parameters: {}, handler: (name) => cases[name]() };`;
  await child.load(bundleOf(bundle, { members: ['http.fetch'] }));
  for (const [name, [, answer]] of Object.entries(rows))
    t.same(await callTool(child, 'run', name), { outcome: 'answered', answer }, name);
  t.equal(scriptedBodies.mostOpen, 16);
  t.equal(scriptedBodies.parts.size, 0);
});

t.test('fetch exists where host.http is granted, and only while it is', async (t) => {
  const code = `return [typeof fetch, 'fetch' in globalThis, typeof Headers, Object.keys(globalThis).includes('Headers')];`;
  const without = testChild(t, jail);
  await without.load(bundleOf(toolOf(code)));
  t.match(await callTool(without, 'run'), { answer: ['undefined', false, 'function', false] });
  without.configure({}, ['http.fetch']);
  t.match(await callTool(without, 'run'), { answer: ['function', true] });
  without.configure({}, []);
  t.match(await callTool(without, 'run'), { answer: ['undefined', false] });

  const own = testChild(t, jail);
  await own.load(
    bundleOf(`globalThis.fetch = () => 'mine'; ${toolOf('return fetch();')}`, { members: ['http.fetch'] }),
  );
  own.configure({}, ['http.fetch']);
  t.match(await callTool(own, 'run'), { answer: 'mine' }, 'a plugin may replace it');
});

t.test('a plugin may freeze its global object', async (t) => {
  const child = testChild(t, jail);
  const code = `return [new Headers({ a: 'b' }).get('a'), Headers === Headers, typeof Intl.NumberFormat, host.settings.a];`;
  await child.load(bundleOf(`Object.freeze(globalThis); ${toolOf(code)}`, { settings: { a: 'old' } }));
  child.configure({ a: 'new' }, ['http.fetch']);
  t.match(await callTool(child, 'run'), { answer: ['b', true, 'function', 'old'] });
  t.match(child.lines, [{ level: 'error', message: /^host keeps its old settings and grants, because/ }]);
});

t.test('everything that the web’s globals reach is frozen', async (t) => {
  const child = testChild(t, jail);
  const code = `const names = ${JSON.stringify([...WEB_CLASSES, 'fetch', 'EventTarget', 'CustomEvent', 'AbortController', 'AbortSignal', 'DOMException', 'performance', 'console'])};
    const seen = new Set(); const loose = [];
    const walk = (value, path) => {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
      seen.add(value);
      if (!Object.isFrozen(value)) loose.push(path);
      walk(Object.getPrototypeOf(value), path + '.[proto]');
      for (const key of Reflect.ownKeys(value)) {
        const found = Object.getOwnPropertyDescriptor(value, key);
        for (const part of ['value', 'get', 'set']) walk(found[part], path + '.' + String(key));
      }
    };
    for (const name of names) walk(globalThis[name], name);
    return [loose, seen.size > 300];`;
  await child.load(bundleOf(toolOf(code), { members: ['http.fetch'] }));
  t.same(await callTool(child, 'run'), { outcome: 'answered', answer: [[], true] });
});
