/** The checks of arguments and results of host calls. */
import t from 'tap';
import { z } from 'zod';
import { TEXT_MAX_CHARS } from '../../../sdk/contract/payloads.ts';
import { type HostCallName, hostCalls } from '../../../sdk/contract/protocol.ts';
import type { HostRow } from '../../../sdk/contract/rows.ts';
import { admitSecrets, checkArguments, checkResult } from '../../../supervisor/host/call-checks.ts';
import { SecretMask } from '../../../supervisor/records/secret-mask.ts';

t.test('the size of a result counts bytes, also of the names of its fields', async (t) => {
  const row = { result: z.unknown(), maxBytes: 10 } as unknown as HostRow;
  const tooLarge = { message: 'host.storage.get: the result is larger than 10 bytes' };
  for (const result of ['1234567890', { a: 1 }, new Uint8Array(10)])
    t.same(checkResult('storage.get', row, result), result);
  for (const result of ['éééééé', { ééééé: 1 }, new Uint8Array(11)])
    t.throws(() => checkResult('storage.get', row, result), tooLarge);
});

t.test('a text that is too long with the names of its secrets is refused', async (t) => {
  const mask = new SecretMask();
  mask.add('aVeryLongNameOfSecret', 'abcdefgh12');
  const admit = (name: HostCallName, ...given: readonly unknown[]) =>
    admitSecrets(name, hostCalls[name], mask, checkArguments(name, hostCalls[name], given));
  t.same(admit('session.notice', 'x abcdefgh12'), { text: 'x [secret aVeryLongNameOfSecret]' });
  const long = 'abcdefgh12'.repeat(TEXT_MAX_CHARS / 10);
  t.throws(() => admit('session.notice', long), { message: /^host\.session\.notice: text: / });
  const agent = { name: 'Ann', instructions: long };
  t.throws(() => admit('agents.create', agent), { message: /^host\.agents\.create: agent\.instructions: / });
});
