/** What `message-guard` takes for a card number. */
import t from 'tap';
import { hideCardNumbers } from '../../examples/message-guard/card-numbers.ts';

t.test('a card number is hidden whatever digits stand beside it', async (t) => {
  const hidden: Readonly<Record<string, string>> = {
    '4111 1111 1111 1111 12/27': '[card number] 12/27',
    '4111111111111111 123': '[card number] 123',
    '5555 5555 5555 4444 08/28 cvc 321': '[card number] 08/28 cvc 321',
    '3782 822463 10005 11/26': '[card number] 11/26',
    '2 4111111111111111': '2 [card number]',
    'qty 10 4111111111111111': 'qty 10 [card number]',
    '4111-1111-1111-1111 378282246310005 4111-1111-1111-1111': '[card number] [card number] [card number]',
    // The first 14 digits pass the check by chance.
    '14 4111 1111 1111 1111': '[card number]',
  };
  for (const [text, shown] of Object.entries(hidden)) t.equal(hideCardNumbers(text), shown, text);
});

t.test('other numbers stay', async (t) => {
  for (const text of ['order 4111 1111 1111 1112', '4111 1111 1111', '+41 44 668 18 00', 'x4111111111111111'])
    t.equal(hideCardNumbers(text), text);
});

t.test('long sequences of digits take linear time', async (t) => {
  const before = process.cpuUsage();
  for (const unit of ['1', '1 ', '4111 ', `${'1'.repeat(20)}-`]) {
    const text = unit.repeat(100_000);
    hideCardNumbers(text);
    hideCardNumbers(`${text}a`);
  }
  t.ok(process.cpuUsage(before).user < 5_000_000, 'no text keeps it busy');
});
