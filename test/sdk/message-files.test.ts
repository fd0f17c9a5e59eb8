/** Addresses of files in messages, which users and models write. */
import t from 'tap';
import { readAddress } from '../../sdk/adapters/message-files.ts';

t.test('a data address gives its bytes and media type', async (t) => {
  t.same(readAddress('data:image/png;base64,AA,A'), { data: 'AA,A', mediaType: 'image/png' });
  t.same(readAddress('data:text/plain;charset=utf-8;base64,AAAA'), { data: 'AAAA', mediaType: 'text/plain' });
  t.same(readAddress(' da\tta:;base64,AAAA'), { data: 'AAAA' });
  t.same(readAddress('data:text/plain,a%20b'), { data: 'YSBi', mediaType: 'text/plain' });
});

t.test('a data address without a comma stays an address, and is read in linear time', async (t) => {
  for (const rest of ['a', ';', 'a;']) {
    // Took minutes of processor time when it was read in quadratic time.
    const address = `data:${rest.repeat(500_000)}`;
    t.same(readAddress(address), { url: address });
  }
});
