/** A run sees every log line, also when the deployment ends the stream meanwhile. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { Account } from '../../conform/account.ts';
import { LogWatch } from '../../conform/log-watch.ts';

const formatLine = (id: string): string => `id: ${id}\ndata: ${JSON.stringify({ id, message: `line ${id}` })}\n\n`;

t.test('the stream is opened again after its last event', async (t) => {
  const resumedAfter: (string | undefined)[] = [];
  const gone = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    const opened = resumedAfter.push(request.headers['last-event-id'] as string | undefined);
    if (opened > 3) {
      response.writeHead(404).end();
      gone.resolve();
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('retry: 2000\nid: 0\n\n');
    if (opened === 1) response.end(formatLine('1'));
    else if (opened === 2) response.write(formatLine('2'), () => response.destroy());
    else response.end(formatLine('3'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const rest = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const watch = await LogWatch.open(new Account({ rest, sessions: null, webhooks: null }, 'token'), 'i1');
  t.match(await watch.find('the last line', ({ id }) => id === '3'), { message: 'line 3' });
  t.same(resumedAfter.slice(0, 2), [undefined, '1']);
  await gone.promise;
  watch.close();
});
