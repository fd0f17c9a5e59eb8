/** JSON by the letter: what RFC 8259 rules out is 400 at every endpoint, and nothing in a body is ever a 500. */
import t from 'tap';
import { type Answer, startApiFixture } from '../api-fixture.ts';
import { fileList, introspectsMinimal, MINIMAL } from '../package/packages.ts';

const api = await startApiFixture(t, { introspect: introspectsMinimal });
const ann = await api.user('ann');
const { id } = (await ann.post('/plugins', { slug: 'mine', displayName: 'Mine' })).body;
const version = (await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files: fileList(MINIMAL) })).body.id;
const installation = (await ann.post('/installations', { slug: 'mine' })).body.id;

const send = (payload: string | Buffer, url = '/api/plugins', method: 'POST' | 'PATCH' | 'DELETE' = 'POST') =>
  ann.send({ method, url, payload, headers: { 'content-type': 'application/json' } });
const bytes = (...numbers: number[]): Buffer => Buffer.from(numbers);

/** Each alone is no JSON: numbers, words, texts, lists and objects that are nearly right, by the grammar’s rules in order. */
const NOT_JSON: readonly (string | Buffer)[] = [
  ...[
    '-',
    '+1',
    '01',
    '-01',
    '1.',
    '.5',
    '-.5',
    '1.e3',
    '1e',
    '1e+',
    '0x1F',
    '1_000',
    '1 000',
    'Infinity',
    '-Infinity',
  ],
  ...['NaN', '٣', 'nul', 'tru', 'TRUE', 'undefined', 'nulll', 'true false', 'a', '*', '#', '\\u0031', '1;', '1//x'],
  ...['"', "'a'", '"a', '"\\"', '"\\x41"', '"\\u12"', '"\\u12G4"', '"\t"', '"\n"', '"\u0000"', '"\\', '"\\ud800\\u1"'],
  ...['`a`', '"\\a"', '"a" "b"', '[', ']', '[1', '[1,', '[1,]', '[,1]', '[,]', '[1 2]', '[1:2]', '[1}', '[1]]', '[1]x'],
  ...[
    '[-]',
    '["a"',
    '[""',
    '["a",\n4\n,1,',
    '[\u000b1]',
    '[/*x*/1]',
    '{',
    '}',
    '{]',
    '{"a"}',
    '{"a":}',
    '{:1}',
    '{1:1}',
  ],
  ...['{"a":1,}', '{,"a":1}', '{"a":1 "b":2}', '{"a" 1}', "{'a':1}", '{a:1}', '{"a":1}}', '{"a":1}#', '{"a":1}/**/'],
  ...['{"a"::1}', '{"a":1,,"b":2}', '{"a":"b"/**/}', '{"a', '{"a":"', '{"a":1,"b', '\u2028{}', '\u00a0{}', '\ufeff{}'],
  ...['{}{}', '[]a', '\u0007', '<html>', '{"a":/*x*/1}', '---', '=', ' '],
  ...['['.repeat(100_000), '{"":'.repeat(100_000), '[{"":'.repeat(50_000), `${'['.repeat(100_000)}}`],
  ...[bytes(0xff), bytes(0x22, 0xe9, 0x22), bytes(0x22, 0xed, 0xa0, 0x80, 0x22), bytes(0x22, 0xc0, 0xaf, 0x22)],
  ...[
    bytes(0x22, 0xf4, 0x90, 0x80, 0x80, 0x22),
    bytes(0x22, 0xe5, 0x22),
    bytes(0xff, 0xfe, 0x7b, 0, 0x7d, 0),
    bytes(0),
  ],
];
const isBad = (answer: Answer): boolean => answer.status === 400 && answer.body.code === 'bad_request';

t.test('malformed JSON is answered with 400', async (t) => {
  for (const payload of NOT_JSON) {
    const answer = await send(payload);
    const shown = encodeURIComponent(payload.toString().slice(0, 30));
    t.ok(isBad(answer), `${shown}: ${answer.status} ${answer.body.detail}`);
    const inside = await send(Buffer.concat([Buffer.from('{"slug":'), Buffer.from(payload), Buffer.from('}')]));
    t.ok(inside.status === 400, `${shown} in an object: ${inside.status}`);
  }
});

t.test('unusual but valid JSON is parsed exactly', async (t) => {
  const deep = `{"slug":${'['.repeat(5_000)}${']'.repeat(5_000)},"displayName":"x"}`;
  t.ok(isBad(await send(deep)), 'deep, and of the wrong shape');
  t.ok(isBad(await send(`{"slug":${'9'.repeat(100_000)},"displayName":"x"}`)), 'a number of 100,000 digits');
  t.ok(isBad(await send(`{"slug":1e${'9'.repeat(1_000)},"displayName":"x"}`)), 'a number beyond all numbers');
  t.ok(isBad(await send('{"slug":"a","displayName":"x","__proto__":{"slug":"b"}}')), '__proto__');
  t.ok(isBad(await send('{"slug":"a","displayName":"x","\\u005f_proto__":{}}')), 'the same, escaped');
  t.ok(isBad(await send('{"slug":"a","displayName":"x","a":{"constructor":{"prototype":{}}}}')), 'constructor');
  t.match(await send('{"slug":"no","slug":"twice","displayName":"x"}'), { status: 201, body: { slug: 'twice' } });
  const escaped = await send(' \r\n\t{"\\u0073lug":"e\\u0073caped","displayName":"\\ud83d\\ude00 x"}\n');
  t.match(escaped, { status: 201, body: { slug: 'escaped', displayName: '😀 x' } });
});

t.test('no body, an empty one and null are answered at every endpoint', async (t) => {
  const seen: string[] = [];
  for (const [path, methods] of Object.entries(api.document.paths)) {
    for (const method of Object.keys(methods)) {
      if (method === 'get' || path.endsWith('/stream')) continue;
      // It needs no body, and would revoke the token of the requests after it.
      if (method === 'delete' && path === '/me/tokens') continue;
      const known = path.includes('/plugins/') ? id : installation;
      const url = `/api${path
        .replace('{id}', known)
        .replace('{versionId}', version)
        .replace(/\{\w+\}/g, 'none')}`;
      for (const payload of ['', 'null', '[]', '0', '""', '{"a":']) {
        const answer = await send(payload, url, method.toUpperCase() as 'POST');
        seen.push(`${method} ${path} ${JSON.stringify(payload)} ${answer.status}`);
        if (answer.status >= 500) t.fail(`${method} ${path} with ${payload}: ${answer.status}`);
      }
    }
  }
  t.ok(seen.length > 100, `${seen.length} answers`);
});

t.test('file lists: too long, too many, folded and composed alike', async (t) => {
  const list = (files: unknown) => ann.post(`/plugins/${id}/versions`, { semVer: '2.0.0', files });
  const large = await list([...fileList(MINIMAL), { path: 'a.txt', contentText: 'x'.repeat(50_000_000) }]);
  t.match(large, { status: 413, body: { code: 'too_large' } });
  const many = (count: number) => Array.from({ length: count }, (_, index) => ({ path: `f${index}`, contentText: '' }));
  t.match(await list(many(10_001)), { status: 422, body: { code: 'invalid_package', detail: /10001 files.* 10000/ } });
  t.match(await list(many(100_000)), { status: 413, body: { code: 'too_large', detail: /more than 80000 values/ } });
  const [composed, decomposed] = ['\u00e9.txt', 'e\u0301.txt'].map((path) => ({ path, contentText: 'x' }));
  t.match(await list([...fileList(MINIMAL), composed, decomposed]), { status: 422, body: { detail: /same as/ } });
  const folded = ['a/Straße.md', 'A/straße.md'].map((path) => ({ path, contentText: 'x' }));
  t.match(await list([...fileList(MINIMAL), ...folded]), { status: 422, body: { detail: /letter case/ } });
  const binary = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0x02, 0x01, 0x01, 0x00]).toString('latin1');
  const disguised = await list([...fileList(MINIMAL), { path: 'notes.txt', contentText: binary }]);
  t.match(disguised, { status: 422, body: { code: 'text_files_only' } });
});
