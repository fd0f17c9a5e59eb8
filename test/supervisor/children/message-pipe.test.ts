/** The inspector's pipe against a child that floods it. */
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { encodeText } from '../../../sandbox-child/frame.ts';
import { MessagePipe } from '../../../supervisor/children/inspector/message-pipe.ts';

function open() {
  const stream = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
  const messages: string[] = [];
  const violations: string[] = [];
  const pipe = new MessagePipe(stream, {
    message: (text) => void messages.push(text),
    violation: (reason) => void violations.push(reason),
  });
  return { stream, pipe, messages, violations };
}
const numbers = (count: number): string[] => Array.from({ length: count }, (_, n) => String(n));
const encode = (texts: readonly string[]): Buffer => Buffer.concat(texts.map(encodeText));

t.test('many messages in one chunk are passed on in turns, whole and in order', async (t) => {
  const { stream, messages, violations } = open();
  const sent = numbers(1_000);
  const bytes = encode(sent);
  stream.push(bytes.subarray(0, -2));
  await turn();
  t.ok(messages.length <= 100, `${messages.length} in the first turn`);
  stream.push(bytes.subarray(-2));
  while (messages.length < sent.length) await turn();
  t.same(messages, sent);
  t.same(violations, []);
});

t.test('a slow client stops the messages, also those that have arrived', async (t) => {
  const { stream, pipe, messages } = open();
  pipe.pause();
  stream.push(encode(numbers(5)));
  await turn();
  t.same(messages, []);
  pipe.resume();
  await turn();
  t.same(messages, numbers(5));
});

t.test('an empty message ends the connection', async (t) => {
  const { stream, messages, violations } = open();
  stream.push(encode(['first', ...Array(1_000).fill(''), 'last']));
  for (let n = 0; n < 10; n += 1) await turn();
  t.same(messages, ['first']);
  t.same(violations, ['its inspector sent an empty message']);
});
