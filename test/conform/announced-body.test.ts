/** A limit of bodies holds only where the maximum is accepted and one byte more is refused. */
import t from 'tap';
import { requireBodyLimit } from '../../conform/announced-body.ts';
import { Mismatch } from '../../conform/expect.ts';
import { serve } from '../fixtures/listening-server.ts';
import type { Teardown } from '../runner/harness.ts';

const MAX_BYTES = 1_000;

/** Starts a server that refuses longer bodies at once, and waits for others. */
async function startServer(test: Teardown, acceptedBytes: number) {
  const accepted = Promise.withResolvers<void>();
  const { url } = await serve(test, (request, response) => {
    if (Number(request.headers['content-length']) > acceptedBytes) response.writeHead(413).end();
    else accepted.resolve();
  });
  return { url, wait: () => accepted.promise };
}

t.test('a server that accepts the maximum and refuses one byte more', async (t) => {
  const { url, wait } = await startServer(t, MAX_BYTES);
  await t.resolves(requireBodyLimit(url, MAX_BYTES, {}, { wait }));
});

t.test('a server that refuses the maximum', async (t) => {
  const { url, wait } = await startServer(t, MAX_BYTES - 1);
  const refused = new Mismatch('1000 bytes are refused with 413, although the limit allows them');
  await t.rejects(requireBodyLimit(url, MAX_BYTES, {}, { wait }), refused);
});
