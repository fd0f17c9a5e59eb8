/** The checks of arguments and results of host calls. */
import t from 'tap';
import { z } from 'zod';
import type { HostRow } from '../../../sdk/contract/rows.ts';
import { checkResult } from '../../../supervisor/host/call-checks.ts';

t.test('the size of a result counts bytes, also of the names of its fields', async (t) => {
  const row = { result: z.unknown(), maxBytes: 10 } as unknown as HostRow;
  const tooLarge = { message: 'host.storage.get: the result is larger than 10 bytes' };
  for (const result of ['1234567890', { a: 1 }, new Uint8Array(10)])
    t.same(checkResult('storage.get', row, result), result);
  for (const result of ['éééééé', { ééééé: 1 }, new Uint8Array(11)])
    t.throws(() => checkResult('storage.get', row, result), tooLarge);
});
