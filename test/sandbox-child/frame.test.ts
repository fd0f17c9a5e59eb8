/** The codec of the wire: everything JSON survives it, bytes too, and nothing malformed does. */
import fc from 'fast-check';
import t from 'tap';
import {
  decodeFrame,
  encodeFrame,
  FRAME_MAX_BYTES,
  frameLength,
  HEADER_BYTES,
  type Message,
} from '../../sandbox-child/frame.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { amount, seed } from '../runner/soak.ts';

/** Random values and frames. */
const RUNS = amount({ quick: 100, soak: 100_000 });

const encode = (message: Message): Buffer => {
  const buffer = encodeFrame(message, (bytes) => Buffer.alloc(bytes));
  return buffer.subarray(0, frameLength(buffer));
};
const decode = (frame: Buffer): Message =>
  decodeFrame(frame, HEADER_BYTES, HEADER_BYTES + frame.readUInt32LE(4), frame.byteLength);
const roundTrip = (params: unknown): unknown => decode(encode({ method: 'x', params })).params;
/** A frame with this head and these raw parts. */
const forge = (head: string, parts = ''): Buffer => {
  const frame = Buffer.alloc(HEADER_BYTES + Buffer.byteLength(head) + Buffer.byteLength(parts));
  frame.writeUInt32LE(frame.byteLength - 4, 0);
  frame.writeUInt32LE(Buffer.byteLength(head), 4);
  frame.write(head + parts, HEADER_BYTES);
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
      t.same(roundTrip(params), JSON.parse(JSON.stringify(params)));
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

t.test('half characters become whole ones', async (t) => {
  t.same(roundTrip({ a: '\ud800', b: `${'x'.repeat(600)}\udc00` }), { a: '\ufffd', b: `${'x'.repeat(600)}\ufffd` });
});

t.test('a head of characters that are several bytes each', async (t) => {
  for (const length of [100, 4_000, 5_000]) {
    const params = Array.from({ length: length / 10 }, () => '漢'.repeat(8));
    t.same(roundTrip(params), params);
  }
});

t.test('what was taken apart to be sent is left as it was', async (t) => {
  const message: Message = { id: 1, params: { text: 'x'.repeat(600) } };
  encode(message);
  t.same(message, { id: 1, params: { text: 'x'.repeat(600) } });
});

t.test('a value that says itself what its JSON is, is asked', async (t) => {
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
    'parts that are no list': forge('{"@":{}}'),
    'a part too long': forge('{"a":null,"@":[1,"a",0,5]}', 'four'),
    'a part too short': forge('{"a":null,"@":[1,"a",0,3]}', 'four'),
    'a negative part': forge('{"a":null,"b":null,"@":[1,"a",0,-1,1,"b",0,5]}', 'four'),
    'a fractional part': forge('{"a":null,"@":[1,"a",0,1.5]}', 'ab'),
    'an unknown kind': forge('{"a":null,"@":[1,"a",2,1]}', 'a'),
    'a kind that is text': forge('{"a":null,"@":[1,"a","0",1]}', 'a'),
    'a list that ends early': forge('{"a":null,"@":[1,"a",0]}'),
    'a list that ends in a path': forge('{"a":null,"@":[2,"a"]}'),
    'a list too long': forge(`{"a":null,"@":[${'1,"a",0,0,'.repeat(800)}1,"a",0,0]}`),
    'no path': forge('{"a":null,"@":[0,0,1]}', 'a'),
    'a path of half a key': forge('{"a":null,"@":[0.5,"a",0,1]}', 'a'),
    'a path of fewer than no keys': forge('{"a":null,"@":[-1,"a",0,1]}', 'a'),
    'a path that is a list': forge('{"a":null,"@":[["a"],0,1]}', 'a'),
    'a path too deep': forge('{"a":null,"@":[8,"a","a","a","a","a","a","a","a",0,1]}', 'a'),
    'a path of objects': forge('{"a":null,"@":[1,{},0,1]}', 'a'),
    'a path to nowhere': forge('{"a":null,"@":[1,"b",0,1]}', 'a'),
    'a path to what is there': forge('{"a":1,"@":[1,"a",0,1]}', 'a'),
    'a path up the prototype': forge('{"a":{},"@":[3,"a","__proto__","polluted",0,1]}', 'a'),
    'a path to the constructor': forge('{"a":{},"@":[3,"a","constructor","prototype",0,1]}', 'a'),
    'a path into its own list, to no null': forge('{"@":[2,"@",0,0,1]}', 'a'),
  };
  for (const [name, frame] of Object.entries(malformed)) t.throws(() => decode(frame), { name: 'FrameError' }, name);
  t.equal(({} as { polluted?: string }).polluted, undefined);
});

t.test('random bytes are a message or an error, and never a crash', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: HEADER_BYTES, maxLength: 200 }), (bytes) => {
      const frame = Buffer.from(bytes);
      frame.writeUInt32LE(frame.readUInt32LE(4) % (frame.byteLength - HEADER_BYTES + 1), 4);
      try {
        decode(frame);
      } catch (error) {
        return (error as Error).name === 'FrameError';
      }
      return true;
    }),
    { seed, numRuns: RUNS },
  );
  t.pass();
});
