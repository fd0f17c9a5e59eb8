/** Handshakes without an answer of the plugin: it fails, and its log says where the error is, or its address was replaced. */
import t from 'tap';
import { replaceAddress } from '../../../db/channels/channels.ts';
import { requestHandshake } from '../../../db/channels/handshakes.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { eventually } from '../../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';
import { connect, deliver, describeRequest, rowOf } from './channels.ts';

const fixture = await startSupervisorFixture(t);
const made = await fixture.install({
  slug: 'door',
  code: `channel.receive = () => undefined;
    channel.handshakeOn = { header: 'x-hook' };
    channel.handshake = (request) => {
      if (request.bodyText === 'text') return 'welcome';
      if (request.bodyText === 'hello') return { status: 200, body: 'welcome' };
      throw new Error('no key');
    };`,
});
const channel = await connect(fixture, made);
// The start of its process would use up the time of a handshake on a busy machine.
const [delivery = ''] = await deliver(fixture, made, channel, ['start']);
await eventually(async () => (await rowOf(fixture, delivery)).state === 'delivered');
const ask = (body: string) =>
  requestHandshake({ pool: fixture.pool, listener: fixture.supervisor.listener }, describeRequest(made, channel, body));

t.test('an error is logged with its stack', async (t) => {
  t.equal(await ask('throw'), null);
  const [data] = await fixture.readLog('channel.handshake: no key');
  t.match(data, { next: 'queued', stack: /Error: no key\n.*door@/ });
});

t.test('a malformed answer is logged as a sentence', async (t) => {
  t.equal(await ask('text'), null);
  const [data] = await fixture.readLog(
    'channel.handshake: it returned no answer to the vendor: must be an object, not text',
  );
  t.match(data, { next: 'queued', stack: undefined });
});

t.test('a request that arrives while its address is replaced gets no answer of the plugin', async (t) => {
  t.match(await ask('hello'), { status: 200, body: 'welcome' });
  await inTransaction(fixture.pool, (tx) => replaceAddress(tx, made.installationId, channel.id));
  t.equal(await ask('hello'), null);
});
