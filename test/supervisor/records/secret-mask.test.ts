/** Values of secrets are found in every usual encoding, wherever they are, and nothing else is changed. */
import fc from 'fast-check';
import t from 'tap';
import { SecretMask, SecretMasks } from '../../../supervisor/records/secret-mask.ts';
import { amount, seed } from '../../runner/soak.ts';

const RUNS = amount({ quick: 200, soak: 20_000 });
/** Half of what an unbounded search of the long texts takes, and ten times what a bounded one does. Milliseconds of processor time. */
const SEARCH_WITHIN_MS = 10_000;
const VALUE = 'sk_"Ä\\/+ =?&\n🙂>>>???-1234567890';

const maskOf = (secrets: Readonly<Record<string, string>>): SecretMask => {
  const mask = new SecretMask();
  for (const [name, value] of Object.entries(secrets)) mask.add(name, value);
  return mask;
};

const toCodeUnit = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

const encodings: Readonly<Record<string, (value: string) => string>> = {
  plain: (value) => value,
  base64: (value) => Buffer.from(value).toString('base64'),
  base64url: (value) => Buffer.from(value).toString('base64url'),
  'base64 after one byte': (value) => Buffer.from(`:${value}`).toString('base64'),
  'base64 between other bytes': (value) => Buffer.from(`ab${value}xyz`).toString('base64url'),
  percent: encodeURIComponent,
  form: (value) => new URLSearchParams({ value }).toString(),
  JSON: (value) => JSON.stringify({ value }),
  'JSON in JSON': (value) => JSON.stringify({ text: JSON.stringify({ value }) }),
  'JSON of PHP': (value) =>
    JSON.stringify({ value })
      .replaceAll('/', '\\/')
      .replace(/[^ -~]/g, toCodeUnit),
  'JSON of Python': (value) => JSON.stringify({ value }).replace(/[^ -~]/g, toCodeUnit),
  'JSON of Go': (value) => JSON.stringify({ value }).replace(/[<>&]/g, toCodeUnit),
  'JSON of .NET': (value) =>
    JSON.stringify({ value: value.replaceAll('"', 'QUOTE') })
      .replace(/[<>&'+`]|[^ -~]/g, (character) => toCodeUnit(character).toUpperCase().replace('U', 'u'))
      .replace('QUOTE', '\\u0022'),
  'UTF-8 read as Latin-1': (value) => Buffer.from(value).toString('latin1'),
  hex: (value) => Buffer.from(value).toString('hex'),
  'upper-case hex': (value) => Buffer.from(value).toString('hex').toUpperCase(),
};

t.test('a value is masked in every usual encoding', async (t) => {
  const mask = maskOf({ apiKey: VALUE });
  for (const [name, encode] of Object.entries(encodings)) {
    const masked = mask.maskText(`before ${encode(VALUE)} after`);
    t.match(masked, /^before .*\[secret apiKey\].* after$/, name);
    t.notMatch(masked, '1234567890', name);
  }
  t.equal(mask.maskText(`${VALUE}${VALUE} ${VALUE}`), '[secret apiKey][secret apiKey] [secret apiKey]');
});

t.test('a value that was pasted with blanks at its ends is masked without them as well', async (t) => {
  const mask = maskOf({ apiKey: ' \tsk-live-abc123\n' });
  t.equal(mask.maskText('Bearer sk-live-abc123!'), 'Bearer [secret apiKey]!');
  t.equal(mask.maskText(Buffer.from('user:sk-live-abc123').toString('base64')), 'dXNlcjp[secret apiKey]w==');
});

t.test('only the selected secrets are masked, also after one of them has changed', async (t) => {
  const mask = maskOf({ one: 'value-of-one', two: 'value-of-two' });
  t.equal(mask.select(['two']).maskText('value-of-one value-of-two'), 'value-of-one [secret two]');
  mask.add('two', 'another-value');
  t.equal(mask.select(['two']).maskText('value-of-two another-value'), '[secret two] [secret two]');
  t.ok(mask.select(['three']).isEmpty);
});

t.test(
  'the masks of a few selections are kept, so that hosts which are asked in turn need no new search',
  async (t) => {
    const mask = maskOf({ one: 'value-of-one', two: 'value-of-two' });
    const [one, two] = [mask.select(['one']), mask.select(['two'])];
    t.equal(mask.select(['one']), one);
    t.equal(mask.select(['two']), two);
    for (let count = 0; count < 7; count += 1) mask.select([`other${count}`]);
    t.equal(mask.select(['two']), two);
    t.not(mask.select(['one']), one, 'the one that was unused for the longest time is dropped');
  },
);

t.test('strings and property names of JSON are masked, and what holds no secret is the same value', async (t) => {
  const mask = maskOf({ apiKey: VALUE });
  const data = { a: [1, VALUE, { [VALUE]: null }], ['__proto__']: `x${VALUE}` };
  t.equal(
    JSON.stringify(mask.mask(data)),
    '{"a":[1,"[secret apiKey]",{"[secret apiKey]":null}],"__proto__":"x[secret apiKey]"}',
  );
  const clean = { a: [1, 'two', { three: true }] };
  t.equal(mask.mask(clean), clean);
  t.equal(mask.isFoundIn(Buffer.from(`x${encodeURIComponent(VALUE)}`)), true);
  t.equal(mask.isFoundIn({ clean, bytes: Buffer.from('clean') }), false);
});

t.test('a secret is found in UTF-8 bytes, whatever bytes are beside it', async (t) => {
  const mask = maskOf({ password: 'pässwörd-1', word: '密码密码密码', key: 'sk_1234567890' });
  t.equal(mask.isFoundIn(Buffer.from('The password is pässwörd-1.')), true);
  t.equal(mask.isFoundIn(Buffer.from('The password is passwort-1.')), false);
  const bytes = fc.uint8Array({ maxLength: 8 });
  fc.assert(
    fc.property(bytes, fc.constantFrom('pässwörd-1', '密码密码密码', 'sk_1234567890'), bytes, (before, value, after) =>
      mask.isFoundIn(Buffer.concat([before, Buffer.from(value), after])),
    ),
    // Each begins a character of up to four bytes and does not end it.
    {
      seed,
      numRuns: RUNS,
      examples: [0xc3, 0xe5, 0xf0].map((byte) => [Uint8Array.of(byte), '密码密码密码', Uint8Array.of(byte)]),
    },
  );
});

t.test('short values are not masked, long ones as a whole, keys in PEM also line by line', async (t) => {
  t.ok(maskOf({ pin: '12345' }).isEmpty);
  t.equal(maskOf({ pin: '123456' }).maskText('the 123456th'), 'the [secret pin]th');
  const long = Array.from({ length: 16_000 }, (_, index) => index % 10).join('');
  const mask = maskOf({ long });
  t.equal(mask.maskText(`a ${long} b ${Buffer.from(long).toString('hex')}`), 'a [secret long] b [secret long]');
  const lines = [
    '-----BEGIN PRIVATE KEY-----',
    'MIIEvQIBADANBgkqhkiG9w0B',
    'AQEFAASCBKcwggSj',
    '-----END PRIVATE KEY-----',
  ];
  const pem = maskOf({ key: lines.join('\n') });
  t.equal(pem.maskText(`bad line: ${lines[1]}`), 'bad line: [secret key]');
  t.equal(pem.maskText(`${lines[0]}`), lines[0]);
});

t.test('of a JSON object, the fields that hold secrets are masked alone, keys in PEM line by line', async (t) => {
  const account = {
    type: 'service_account',
    project_id: 'a-project-with-a-long-name',
    private_key_id: '0123456789abcdef0123456789abcdef01234567',
    private_key: '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----\n',
    token_uri: 'https://oauth2.googleapis.com/token',
    nested: { tokens: ['tok-0123456789abcdef'] },
  };
  const mask = maskOf({ google: JSON.stringify(account, null, 2) });
  t.equal(mask.maskText(account.private_key_id), '[secret google]');
  const masked = '-----BEGIN PRIVATE KEY-----\n[secret google]\n[secret google]\n-----END PRIVATE KEY-----\n';
  t.equal(mask.maskText(account.private_key), masked);
  t.equal(mask.maskText(`by ${account.nested.tokens[0]}`), 'by [secret google]');
  for (const known of [account.project_id, account.token_uri]) t.equal(mask.maskText(known), known);
  const many = maskOf({
    many: JSON.stringify({ keys: Array.from({ length: 1_000 }, (_, n) => `key ${n} 0123456789`) }),
  });
  t.equal(many.maskText('key 1 0123456789'), '[secret many]');
  t.equal(many.maskText('key 999 0123456789'), 'key 999 0123456789', 'a bounded number');
  t.equal(maskOf({ broken: '{ "key": "0123456789abcdef"' }).maskText('0123456789abcdef'), '0123456789abcdef');
});

t.test('a text that was cut keeps no part of a value at its end', async (t) => {
  const mask = maskOf({ apiKey: VALUE });
  for (const name of ['plain', 'base64url', 'percent', 'hex', 'upper-case hex']) {
    const whole = encodings[name]?.(VALUE) ?? '';
    for (let chars = 6; chars < whole.length; chars += 1)
      t.equal(mask.maskText(`x ${whole.slice(0, chars)}`, true), 'x [secret apiKey]', `${name}, ${chars}`);
  }
  t.equal(mask.maskText(`x${VALUE.slice(0, 12)}`), `x${VALUE.slice(0, 12)}`, 'only where the text was cut');
});

t.test('many secrets are found like one by one', async (t) => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 6, maxLength: 12 });
  const noise = fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' '), maxLength: 30 });
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 8 }), fc.array(noise, { maxLength: 10 }), (values, parts) => {
      const mask = maskOf(Object.fromEntries(values.map((value, index) => [`k${index}`, value])));
      const text = parts.map((part, index) => part + (values[index] ?? '')).join('');
      const masked = mask.maskText(text);
      return (
        values.every((value) => !masked.includes(value)) &&
        (masked === text) === !values.some((value) => text.includes(value))
      );
    }),
    { seed, numRuns: RUNS },
  );
  t.pass();
});

t.test('a text in pieces is masked like the whole, wherever it is cut', async (t) => {
  const mask = maskOf({ short: 'abcabd', longer: 'abcabdabcabe', other: 'bdabca' });
  const stream = mask.openStream();
  t.equal(stream.push('Hello'), 'Hello', 'what can begin no secret leaves at once');
  t.equal(stream.push(' xabc'), ' x');
  t.equal(stream.push('abd.'), '[secret short].');
  t.equal(stream.push('abc') + stream.end(), 'abc');
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 6, maxLength: 12 });
  const noise = fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' '), maxLength: 12 });
  const parts = fc.array(fc.oneof(noise, fc.nat(7)), { maxLength: 12 });
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 8 }), parts, fc.array(fc.nat(9)), (values, given, cuts) => {
      const secrets = maskOf(Object.fromEntries(values.map((value, index) => [`k${index}`, value])));
      const text = given.map((part) => (typeof part === 'number' ? (values[part] ?? '') : part)).join('');
      const pieces = secrets.openStream();
      let masked = '';
      let at = 0;
      for (const chars of cuts) {
        masked += pieces.push(text.slice(at, at + chars));
        at += chars;
      }
      return masked + pieces.push(text.slice(at)) + pieces.end() === secrets.maskText(text);
    }),
    { seed, numRuns: RUNS },
  );
});

t.test('long secrets are searched for in little time, also in a text that is made of beginnings of one', async (t) => {
  const mask = maskOf({ long: `${'a'.repeat(8_000)}b`, short: 'xyzxyz' });
  const started = process.threadCpuUsage();
  const short = 'xyzxyz'.repeat(10_000);
  t.equal(mask.openStream().push(short), '[secret short]'.repeat(10_000));
  const beginning = 'a'.repeat(7_000);
  t.equal(mask.maskText(beginning), beginning);
  const stream = mask.openStream();
  t.equal(stream.push(beginning) + stream.push('.') + stream.end(), `${beginning}.`);
  const longer = mask.openStream();
  const head = 'a'.repeat(64);
  t.equal(longer.push(`${head}.`), '', 'a text with the head alone waits');
  t.equal(longer.push('.'.repeat(8_000)), `${head}.${'.'.repeat(8_000)}`, 'until it is longer than the secret');
  // It holds the head of the long one at each of its characters.
  const repeated = 'a'.repeat(2 ** 19);
  t.equal(mask.maskText(repeated), repeated);
  t.equal(mask.maskText(`${repeated}b`), `${repeated.slice(8_000)}[secret long]`);
  const { user, system } = process.threadCpuUsage(started);
  t.ok((user + system) / 1_000 < SEARCH_WITHIN_MS, `${(user + system) / 1_000} ms`);
});

t.test('many secrets with one beginning are searched for in little time', async (t) => {
  const names = Array.from({ length: 64 }, (_, index) => `k${index}`);
  const keys = maskOf(Object.fromEntries(names.map((name) => [name, `${'a'.repeat(8_000)}${name}.`])));
  const all = names.map((name) => `${'a'.repeat(8_000)}${name}.`).join(' ');
  const lines = maskOf(
    Object.fromEntries(
      names.map((name) => [
        name,
        Array.from({ length: 960 }, (_, line) => `${'a'.repeat(14)}${name}${line}`).join('\n'),
      ]),
    ),
  );
  const repeated = 'a'.repeat(2 ** 19);
  const started = process.threadCpuUsage();
  t.equal(keys.maskText(all), names.map((name) => `[secret ${name}]`).join(' '));
  t.equal(keys.maskText(repeated), '[a text that could not be searched for secrets]');
  const failing = keys.openStream();
  t.equal(failing.push(`${repeated}.`), '[a text that could not be searched for secrets]');
  t.equal(failing.push('The end.') + failing.end(), '', 'the rest may continue a secret');
  t.equal(keys.maskText(`no such key: ${repeated.slice(0, 7_000)}`, true), 'no such key: [secret k10]');
  const shorter = repeated.slice(0, 2 ** 17);
  t.equal(lines.maskText(`${shorter}!`), `${shorter}!`);
  t.equal(lines.maskText(`${shorter}k63255 `), `${shorter.slice(14)}[secret k63] `);
  const { user, system } = process.threadCpuUsage(started);
  t.ok((user + system) / 1_000 < SEARCH_WITHIN_MS, `${(user + system) / 1_000} ms`);
});

t.test('many secrets that are longer than each of many texts cost little time', async (t) => {
  const formatLine = (name: number, line: number) => `${'a'.repeat(122)}${1_000 + name}${1_000 + line}`;
  const listLines = (name: number) => Array.from({ length: 120 }, (_, line) => formatLine(name, line));
  const secrets = Array.from({ length: 64 }, (_, name) => [`k${name}`, listLines(name).join('\n')]);
  const mask = maskOf(Object.fromEntries(secrets));
  const texts = Array.from({ length: 4_000 }, () => 'a'.repeat(129));
  const started = process.threadCpuUsage();
  t.equal(mask.mask(texts), texts);
  t.equal(mask.maskText(`${formatLine(0, 0)}!`), '[secret k0]!');
  const { user, system } = process.threadCpuUsage(started);
  t.ok((user + system) / 1_000 < 3_000, `${(user + system) / 1_000} ms`);
});

t.test('a text that arrives character by character and always may begin a long secret costs little time', async (t) => {
  const stream = maskOf({ key: `${'a'.repeat(16_383)}b` }).openStream();
  const chars = 30_000;
  let masked = '';
  const started = process.threadCpuUsage();
  for (let at = 0; at < chars; at += 1) masked += stream.push('a');
  t.ok(masked.length > 0, 'what is certain leaves before the end');
  masked += stream.push('b') + stream.end();
  const { user, system } = process.threadCpuUsage(started);
  t.equal(masked, `${'a'.repeat(chars - 16_383)}[secret key]`);
  t.ok((user + system) / 1_000 < 2_000, `${(user + system) / 1_000} ms`);
});

t.test('what was held back for a secret that is forgotten leaves before what follows', async (t) => {
  const mask = maskOf({ key: 'sesame' });
  const stream = mask.openStream();
  t.equal(stream.push('The sesa'), 'The ');
  for (let n = 1; n <= 8; n += 1) mask.add('key', `${n}`);
  t.ok(mask.isEmpty);
  t.equal(stream.push('me.'), 'sesame.');
});

t.test('a secret that is read in the middle of a text is masked in what follows', async (t) => {
  const mask = new SecretMask();
  const stream = mask.openStream();
  t.equal(stream.push('The key'), 'The key');
  mask.add('key', 'sesame open');
  t.equal(stream.push(' is sesame'), ' is ');
  t.equal(stream.push(' open.'), '[secret key].');
});

t.test('the last values of a secret stay masked', async (t) => {
  const mask = new SecretMask();
  for (const n of [1, 2, 3, 4, 5, 6, 7, 8, 9]) mask.add('key', `value ${n}`);
  mask.add('key', 'value 2');
  t.equal(mask.maskText('value 1, value 2, value 9'), 'value 1, [secret key], [secret key]');
  for (let n = 10; n < 1_000; n += 1) mask.add('key', `value ${n}`);
  t.equal(mask.maskText('value 9, value 999'), 'value 9, [secret key]');
});

t.test('an earlier value of a secret stays masked until the installation is forgotten', async (t) => {
  const masks = new SecretMasks();
  masks.open('one').add('key', 'first value');
  masks.open('one').add('key', 'second value');
  t.equal(masks.get('one').maskText('first value, second value'), '[secret key], [secret key]');
  t.ok(masks.get('two').isEmpty);
  masks.keepOnly((id) => id === 'two');
  t.ok(masks.get('one').isEmpty);
});
