/** The codec of messages: everything JSON survives it, bytes too, and nothing malformed does. And frames, however they arrive. */
import fc from 'fast-check';
import t from 'tap';
import { decodeText, encodeText, FRAME_MAX_BYTES, FrameBuffer, HEADER_BYTES } from '../../sandbox-child/frame.ts';
import { copyAsSent, decodeMessage, decodeUntrusted, refuseCostlyMessage } from '../../sandbox-child/message.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { FRAME_LEVELS_MAX, FRAME_VALUES_MAX } from '../../sdk/contract/untrusted-json.ts';
import { amount, seed } from '../runner/soak.ts';
import { encodedFrame as encode } from './encoded-frame.ts';

/** Random values and frames. */
const RUNS = amount({ quick: 100, soak: 100_000 });

/** Before the head: the length of the frame's content, and of the head. */
const PREFIX_BYTES = HEADER_BYTES + 4;

const decode = (frame: Buffer): Record<string, unknown> => decodeMessage(frame, HEADER_BYTES, frame.byteLength);
const roundTrip = (params: unknown): unknown => decode(encode({ method: 'x', params })).params;
/** A frame with this head and these raw parts. */
const forge = (head: string, parts = ''): Buffer => {
  const frame = Buffer.alloc(PREFIX_BYTES + Buffer.byteLength(head) + Buffer.byteLength(parts));
  frame.writeUInt32LE(frame.byteLength - HEADER_BYTES, 0);
  frame.writeUInt32LE(Buffer.byteLength(head), HEADER_BYTES);
  frame.write(head + parts, PREFIX_BYTES);
  return frame;
};

t.test('the limit is the contract’s', async (t) => {
  t.equal(FRAME_MAX_BYTES, limits.frameBytes);
});

t.test('any JSON value survives', async (t) => {
  const long = fc.string({ minLength: 500, maxLength: 700, unit: 'grapheme' });
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.jsonValue(),
      long,
      fc.array(tie('value')),
      fc.dictionary(fc.string(), tie('value')),
    ),
  }));
  fc.assert(
    fc.property(value, (params) => {
      const expected = JSON.parse(JSON.stringify(params));
      t.same(roundTrip(params), expected);
      t.same(copyAsSent({ params }), { params: expected });
    }),
    { seed, numRuns: RUNS },
  );
});

t.test('bytes survive exactly, wherever the protocol has them', async (t) => {
  const bytes = Uint8Array.from({ length: 3_000 }, (_, index) => index % 256);
  const params = { args: [{ content: bytes, name: 'x' }], body: { deep: { bytes: new Uint8Array(0) } } };
  const found = roundTrip(params) as typeof params;
  t.same(found.args[0]?.content, bytes);
  t.ok(found.args[0]?.content instanceof Uint8Array && !Buffer.isBuffer(found.args[0].content));
  t.equal(found.body.deep.bytes.byteLength, 0);
});

t.test('a copy of params does not change with them', async (t) => {
  const bytes = Uint8Array.of(1, 2, 3);
  const params = { args: ['x'.repeat(600), bytes, { bytes, list: [1] }, undefined], more: { toJSON: () => bytes } };
  const copy = copyAsSent(params);
  const arriving = roundTrip(params);
  bytes[0] = 9;
  Object.assign(params.args[2] as object, { list: [], text: 'new' });
  params.args.length = 0;
  t.same(copy, arriving);
  t.same(roundTrip(copy), arriving);
  t.throws(() => copyAsSent({ big: 1n }), TypeError);
});

t.test('a value of a plugin of which JSON keeps nothing is refused with its place and advice', async (t) => {
  const call = (value: unknown) => ({ member: 'storage.set', args: ['k', value], invocationId: null });
  const lost = (place: string, what: string, advice: string) => ({
    name: 'TypeError',
    message: `${place} is ${what}, of which JSON keeps nothing. ${advice}`,
  });
  const promise = Promise.resolve(1);
  const refused: [unknown, ReturnType<typeof lost>][] = [
    [promise, lost('args[1]', 'an object of the class Promise', 'Await it first')],
    [
      { rates: new Map([['EUR', 1]]) },
      lost('args[1].rates', 'an object of the class Map', 'Pass Object.fromEntries(map)'),
    ],
    [[1, new Set([1])], lost('args[1][1]', 'an object of the class Set', 'Pass [...set]')],
    [Array(100).fill(promise), lost('args[1][0]', 'an object of the class Promise', 'Await it first')],
    [{ error: new RangeError('x') }, lost('args[1].error', 'an object of the class Error', 'Pass its message')],
    [() => 1, lost('args[1]', 'a function', 'Call it and pass what it returns')],
    [
      new (class Secretive {
        #kept = 1;
        read = undefined as unknown;
        constructor() {
          Reflect.deleteProperty(this, 'read');
          this.#kept += 1;
        }
      })(),
      lost('args[1]', 'an object of the class Secretive', 'Pass plain objects, arrays, texts and numbers'),
    ],
  ];
  for (const [value, error] of refused) {
    t.throws(() => encode({ method: 'hostCall', params: call(value) }), error);
    t.throws(() => copyAsSent(call(value)), error);
  }
  t.throws(
    () => encode({ result: { outcome: 'answered', answer: { content: promise } } }),
    lost('answer.content', 'an object of the class Promise', 'Await it first'),
  );
  class Point {
    x = 1;
  }
  const kept = [
    new Date(0),
    new Point(),
    Object.create(null),
    new String('a'),
    new URL('http://a.b'),
    [undefined],
    { skipped: () => 1, signal: AbortSignal.abort() },
  ];
  const sent = JSON.parse(JSON.stringify(kept));
  t.same(decode(encode({ params: call(kept) })).params, call(sent));
  t.same(copyAsSent(call(kept)), call(sent));
  t.same(roundTrip({ level: 'info', data: promise }), { level: 'info', data: {} }, 'log data may lose a value');
});

t.test('a BigInt is refused with its place and advice, an object without JSON as before', async (t) => {
  const call = (value: unknown) => ({ member: 'storage.set', args: ['k', value], invocationId: null });
  const refused = (place: string) => ({
    name: 'TypeError',
    message: `${place} is a BigInt, which JSON cannot hold. Pass String(value)`,
  });
  const places: [unknown, string][] = [
    [1n, 'args[1]'],
    [
      { text: 'x'.repeat(600), rows: Array.from({ length: 50 }, (_, id) => ({ id: BigInt(id) })) },
      'args[1].rows[0].id',
    ],
    [{ toJSON: () => ({ total: 1n }) }, 'args[1].total'],
  ];
  for (const [value, place] of places) {
    t.throws(() => encode({ method: 'hostCall', params: call(value) }), refused(place));
    t.throws(() => copyAsSent(call(value)), refused(place));
  }
  t.throws(() => encode({ result: { outcome: 'answered', answer: { id: 1n } } }), refused('answer.id'));
  const ring: Record<string, unknown> = {};
  ring.ring = ring;
  t.throws(() => encode({ params: call(ring) }), /circular/);
});

t.test('bytes are what they are, whatever a plugin says of their length', async (t) => {
  const bytes = Uint8Array.of(1, 2, 3, 4);
  class Lying extends Uint8Array {
    override get byteLength(): number {
      return -8;
    }
  }
  const own = Object.defineProperty(bytes.slice(), 'byteLength', { value: 1_000_000 });
  const found = roundTrip({ list: [Lying.from(bytes), own] }) as { list: Uint8Array[] };
  t.same(found, { list: [bytes, bytes] });
  const seen: PropertyKey[] = [];
  const proxy = new Proxy(bytes, {
    get(target, key) {
      seen.push(key);
      return Reflect.get(target, key);
    },
  });
  t.same(roundTrip({ proxy }), { proxy: { 0: 1, 1: 2, 2: 3, 3: 4 } }, 'a proxy is an object like any other');
  t.notOk(seen.includes('byteLength') || seen.includes('length'));
});

t.test('a message whose bytes change while it is encoded is refused', async (t) => {
  for (const change of [
    (memory: ArrayBuffer) => memory.resize(8),
    (memory: ArrayBuffer) => memory.resize(8_192),
    (memory: ArrayBuffer) => void memory.transfer(),
  ]) {
    const memory = new ArrayBuffer(4_096, { maxByteLength: 8_192 });
    const params = { bytes: new Uint8Array(memory), later: { toJSON: () => change(memory) } };
    t.throws(() => encode({ method: 'x', params }), change.name);
  }
});

t.test('no text is altered: half characters, U+0000, escapes as text, and odd names', async (t) => {
  const long = 'x'.repeat(600);
  const texts = ['\ud800', '\0', '\\u0000', '\\ud800', '\ufffd', `${long}\udc00`, `${long}\0`, `${long}\ufffd`];
  for (const text of texts) t.strictSame(roundTrip({ a: text, [text]: 1 }), { a: text, [text]: 1 });
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const fields = JSON.parse(`{"${name}": {"${name}": "${long}"}, "a": "${long}"}`);
    t.equal(JSON.stringify(roundTrip(fields)), JSON.stringify(fields), name);
  }
});

t.test('bytes that are not UTF-8 are refused, in the head and in a part', async (t) => {
  const broken = Buffer.from([0x61, 0xc3, 0x28]).toString('latin1');
  const latin = (frame: Buffer): Buffer => Buffer.from(frame.toString('latin1').replace('NOT', broken), 'latin1');
  for (const frame of [forge('{"a":"NOT"}'), forge('{"params":{"a":null},"parts":[1,"a",0,3]}', 'NOT')]) {
    t.doesNotThrow(() => decode(frame));
    t.throws(() => decode(latin(frame)), {
      name: 'FrameError',
      message: /^a message that is not valid JSON: it is not UTF-8$/,
    });
  }
  t.doesNotThrow(() => decode(forge('{"a":"\ufffd"}')), 'the replacement character itself');
});

t.test('a head of characters that are several bytes each', async (t) => {
  for (const length of [100, 4_000, 5_000]) {
    const params = Array.from({ length: length / 10 }, () => '漢'.repeat(8));
    t.same(roundTrip(params), params);
  }
});

t.test('what was taken apart to be sent is left as it was', async (t) => {
  const message = { id: 1, params: { text: 'x'.repeat(600) } };
  encode(message);
  t.same(message, { id: 1, params: { text: 'x'.repeat(600) } });
});

t.test(
  'objects that all link to each other are refused as a cycle, without following every path through them',
  async (t) => {
    let reads = 0;
    const readName = () => {
      reads += 1;
      return `room ${reads}`;
    };
    const room = () => Object.defineProperty({}, 'name', { enumerable: true, get: readName });
    const rooms: Record<string, unknown>[] = Array.from({ length: 14 }, room);
    for (const from of rooms) for (const [index, to] of rooms.entries()) if (from !== to) from[`to ${index}`] = to;
    t.throws(() => encode({ method: 'x', params: { room: rooms[0] } }), { name: 'TypeError', message: /circular/ });
    t.ok(reads <= FRAME_VALUES_MAX, `${reads} reads`);
  },
);

t.test('`toJSON` of a value is used', async (t) => {
  const value = { long: 'x'.repeat(600), toJSON: () => ({ short: 'y' }) };
  t.same(roundTrip({ value }), { value: { short: 'y' } });
});

t.test('own __proto__ keys stay keys', async (t) => {
  const params = JSON.parse(`{"__proto__": {"polluted": ${JSON.stringify('x'.repeat(600))}}}`);
  const found = roundTrip(params) as object;
  t.ok(Object.hasOwn(found, '__proto__'));
  t.equal((found as { polluted?: string }).polluted, undefined);
});

t.test('too large a message is refused before it is written', async (t) => {
  t.throws(() => encode({ method: 'x', params: 'x'.repeat(FRAME_MAX_BYTES) }), RangeError);
  t.doesNotThrow(() => encode({ method: 'x', params: 'x'.repeat(FRAME_MAX_BYTES - 200) }));
  // To the byte, also where the head is too short to have been counted.
  const room = FRAME_MAX_BYTES + 4 - encode({ method: 'x', params: 'x'.repeat(4_000_000) }).byteLength;
  t.equal(encode({ method: 'x', params: 'x'.repeat(4_000_000 + room) }).byteLength, FRAME_MAX_BYTES + 4);
  t.throws(() => encode({ method: 'x', params: 'x'.repeat(4_000_001 + room) }), RangeError);
});

t.test('malformed frames', async (t) => {
  const malformed: Readonly<Record<string, Buffer>> = {
    'no JSON': forge('{'),
    'no object': forge('[1]'),
    'a string': forge('"x"'),
    null: forge('null'),
    'parts left over': forge('{"id":1}', 'rest'),
    'parts that are no list': forge('{"parts":{}}'),
    'a part too long': forge('{"params":{"a":null},"parts":[1,"a",0,5]}', 'four'),
    'a part too short': forge('{"params":{"a":null},"parts":[1,"a",0,3]}', 'four'),
    'a negative part': forge('{"params":{"a":null,"b":null},"parts":[1,"a",0,-1,1,"b",0,5]}', 'four'),
    'a fractional part': forge('{"params":{"a":null},"parts":[1,"a",0,1.5]}', 'ab'),
    'an unknown kind': forge('{"params":{"a":null},"parts":[1,"a",2,1]}', 'a'),
    'a kind that is text': forge('{"params":{"a":null},"parts":[1,"a","0",1]}', 'a'),
    'a list that ends early': forge('{"params":{"a":null},"parts":[1,"a",0]}'),
    'a list that ends in a path': forge('{"params":{"a":null},"parts":[2,"a"]}'),
    'a list too long': forge(`{"params":{"a":null},"parts":[${'1,"a",0,0,'.repeat(800)}1,"a",0,0]}`),
    'no path': forge('{"params":{"a":null},"parts":[0,0,1]}', 'a'),
    'a path of half a key': forge('{"params":{"a":null},"parts":[0.5,"a",0,1]}', 'a'),
    'a path of fewer than no keys': forge('{"params":{"a":null},"parts":[-1,"a",0,1]}', 'a'),
    'a path that is a list': forge('{"params":{"a":null},"parts":[["a"],0,1]}', 'a'),
    'a path too deep': forge('{"params":{"a":null},"parts":[8,"a","a","a","a","a","a","a","a",0,1]}', 'a'),
    'a path of objects': forge('{"params":{"a":null},"parts":[1,{},0,1]}', 'a'),
    'parts of a message that holds nothing': forge('{"parts":[1,"a",0,1]}', 'a'),
    'a path to nowhere': forge('{"params":{"a":null},"parts":[1,"b",0,1]}', 'a'),
    'a path to what is there': forge('{"params":{"a":1},"parts":[1,"a",0,1]}', 'a'),
    'a path up the prototype': forge('{"params":{"a":{}},"parts":[3,"polluted","__proto__","a",0,1]}', 'a'),
    'a path to the constructor': forge('{"params":{"a":{}},"parts":[3,"prototype","constructor","a",0,1]}', 'a'),
    'a path into its own list, to no null': forge('{"params":{},"parts":[2,0,"parts",0,1]}', 'a'),
  };
  for (const [name, frame] of Object.entries(malformed)) t.throws(() => decode(frame), { name: 'FrameError' }, name);
  t.equal(({} as { polluted?: string }).polluted, undefined);
});

t.test('random bytes are a message or an error, and never a crash', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const content = Buffer.from(bytes);
      if (content.byteLength >= 4) content.writeUInt32LE(content.readUInt32LE(0) % (content.byteLength + 1), 0);
      try {
        decodeUntrusted(content, 0, content.byteLength);
      } catch (error) {
        return (error as Error).name === 'FrameError';
      }
      return true;
    }),
    { seed, numRuns: RUNS },
  );
  t.pass();
});

t.test('a getter that sends a message of its own does not mix up the two', async (t) => {
  const long = 'x'.repeat(600);
  const message = {
    method: 'x',
    params: {
      get nested() {
        encode({ params: { a: { b: { c: long } } } });
        return { long };
      },
    },
  };
  t.same(decode(encode(message)).params, { nested: { long } });
});

t.test('JSON that nests too deeply is refused before it is parsed', async (t) => {
  const nested = (levels: number): Buffer => forge(`{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`);
  const read = (frame: Buffer): unknown => decodeUntrusted(frame, HEADER_BYTES, frame.byteLength);
  t.doesNotThrow(() => read(nested(FRAME_LEVELS_MAX - 1)));
  for (const levels of [FRAME_LEVELS_MAX, 10_000, 1_000_000])
    t.throws(() => read(nested(levels)), { name: 'FrameError' });
  t.doesNotThrow(() => read(forge(`{"a":"${'['.repeat(500)}\\"${'['.repeat(500)}"}`)), 'brackets in a string');
  const unclosed = forge(`{"a":"${'['.repeat(500)}`);
  t.doesNotThrow(() => refuseCostlyMessage(unclosed, HEADER_BYTES, unclosed.byteLength));
});

t.test('JSON of too many values is refused before it is parsed', async (t) => {
  const read = (frame: Buffer): unknown => decodeUntrusted(frame, HEADER_BYTES, frame.byteLength);
  const list = (values: number): Buffer => forge(`{"a":[${'1,'.repeat(values)}1]}`);
  t.doesNotThrow(() => read(list(FRAME_VALUES_MAX - 3)));
  const message = `a message that holds more than ${FRAME_VALUES_MAX} values`;
  t.throws(() => read(list(FRAME_VALUES_MAX)), { name: 'FrameError', message });
});

t.test('numbers that may be inexact are looked at without a second parse', async (t) => {
  const frame = forge(`{"a":[${'1e5,1e+300,1234567890123456,12345678901234567000,'.repeat(1_000)}1]}`);
  const { parse } = JSON;
  let parses = 0;
  JSON.parse = (...args) => {
    parses += 1;
    return parse(...args);
  };
  try {
    decodeUntrusted(frame, HEADER_BYTES, frame.byteLength);
  } finally {
    JSON.parse = parse;
  }
  t.equal(parses, 1);
});

t.test('a number is refused if a double would be written with other digits', async (t) => {
  const digits = (maxLength: number) => fc.string({ unit: fc.constantFrom(...'0123456789'), maxLength });
  const whole = fc.tuple(fc.constantFrom(...'123456789'), digits(24)).map((parts) => parts.join(''));
  const large = fc.bigInt({ min: 2n ** 53n - 4n, max: 2n ** 53n + 4n }).map(String);
  const fraction = digits(24).map((text) => `.${text}0`);
  const exponent = fc.tuple(fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), fc.nat({ max: 400 }));
  const number = fc.tuple(
    fc.constantFrom('', '-'),
    fc.oneof(whole, large, fc.constant('0')),
    fc.option(fraction, { nil: '' }),
    fc.option(
      exponent.map((parts) => parts.join('')),
      { nil: '' },
    ),
  );
  fc.assert(
    fc.property(number, ([sign, whole, fraction, exponent]) => {
      const source = `${sign}${whole}${fraction}${exponent}`;
      const value = Number(source);
      const isWhole = fraction === '' && exponent === '' && source !== '-0';
      const [shortest = '', power] = value.toExponential().split('e');
      const written = shortest.replace('.', '').padEnd(Number(power) + 1 + sign.length, '0');
      const isExact = Number.isFinite(value) && (!isWhole || written === source);
      const frame = forge(`{"a":[0,${source},1]}`);
      const read = (): unknown => decodeUntrusted(frame, HEADER_BYTES, frame.byteLength);
      if (isExact) t.same(read(), { a: [0, value, 1] });
      else t.throws(read, { name: 'FrameError', message: `a message that holds the number ${source.slice(0, 40)}` });
    }),
    { seed, numRuns: RUNS },
  );
});

t.test('frames arrive whole however a pipe cuts them', async (t) => {
  const texts = fc.array(fc.string({ unit: 'grapheme', maxLength: 50 }), { maxLength: 10 });
  fc.assert(
    fc.property(texts, fc.infiniteStream(fc.integer({ min: 1, max: 40 })), fc.boolean(), (sent, cuts, isReused) => {
      const pipe = Buffer.concat(sent.map(encodeText));
      const frames = new FrameBuffer(1_000);
      const received: string[] = [];
      const memory = Buffer.alloc(40);
      for (let at = 0; at < pipe.byteLength; ) {
        const chunk = pipe.subarray(at, at + cuts.next().value);
        at += chunk.byteLength;
        memory.fill(0xff);
        chunk.copy(memory);
        frames.push(isReused ? memory.subarray(0, chunk.byteLength) : chunk);
        for (let text = frames.readFrame(decodeText); text !== null; text = frames.readFrame(decodeText))
          received.push(text);
        if (isReused) frames.copyRest();
      }
      t.same(received, sent);
      t.equal(frames.bytes, 0);
    }),
    { seed, numRuns: RUNS },
  );
});

t.test('the pieces of a frame are copied, so that none of them is kept', async (t) => {
  const pipe = encodeText('x'.repeat(900));
  const frames = new FrameBuffer(1_000);
  const piece = Buffer.alloc(1);
  frames.push(pipe.subarray(0, 1));
  for (const byte of pipe.subarray(1)) {
    t.equal(frames.readFrame(decodeText), null);
    piece[0] = byte;
    frames.push(piece);
  }
  piece.fill(0);
  t.equal(frames.readFrame(decodeText), 'x'.repeat(900));
});

t.test('a frame that announces too much is refused at its header', async (t) => {
  const frames = new FrameBuffer(1_000);
  frames.push(encodeText('x'.repeat(1_001)).subarray(0, HEADER_BYTES));
  t.throws(() => frames.readFrame(decodeText), {
    name: 'FrameError',
    message: 'a frame of 1001 bytes; the limit is 1000',
  });
});
