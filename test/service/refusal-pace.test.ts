/** Refusals that wait hold connections, of which a server has a limited number. */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import t from 'tap';
import { findConnectionsMax } from '../../service/http/connection-limits.ts';
import { RefusalPace } from '../../service/http/refusal-pace.ts';

t.test('a quarter of the connections may wait for their refusals, and further ones are answered at once', async (t) => {
  const pace = new RefusalPace();
  let sent = 0;
  const refuse = (count: number): void => {
    for (let index = 0; index < count; index += 1)
      pace.answer(new ServerResponse(new IncomingMessage(new Socket())), () => {
        sent += 1;
      });
  };
  const connections = findConnectionsMax();
  refuse(connections / 2);
  const waiting = Math.floor(connections / 2) - sent;
  t.ok(waiting > connections / 5 && waiting <= connections / 4, `${waiting} of ${connections} wait`);
  const before = sent;
  refuse(10);
  t.equal(sent, before + 10);
});
