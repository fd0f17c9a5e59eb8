/** `slack-inbox`: signed requests become messages of conversations, replies go to the thread they answer. */
import { createHmac, randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { insertDeliveries } from '../../db/channels/deliveries.ts';
import { eventually } from '../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { openAddress } from './address.ts';
import { readExample, startVendor } from './example.ts';

const secrets = {
  signingSecret: '8f742231b10e8888abcd99yyyzzz85a5',
  previousSigningSecret: '1a742231b10e8888abcd99yyyzzz85b6',
  botToken: 'xoxb-canary',
};
const posted: { path: string; authorization: string; body: unknown }[] = [];
const refusals = ['ratelimited'];
const vendor = await startVendor(t, ['slack.com'], async (request, response) => {
  const body = JSON.parse((await request.toArray()).join(''));
  posted.push({ path: request.url ?? '', authorization: request.headers.authorization ?? '', body });
  const error = refusals.shift();
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(error ? { ok: false, error } : { ok: true }));
});
const fixture = await startSupervisorFixture(t, { http: vendor.http });
const installed = await fixture.install(await readExample('slack-inbox', { secrets, addresses: vendor.addresses }));
const address = await openAddress(t, fixture, installed);

/** Posts as Slack does. */
const post = (value: unknown, how?: How) => {
  const { body, headers } = signed(value, how);
  return address.post(body, headers);
};
type How = { key?: string; ageSeconds?: number };
function signed(value: unknown, { key = secrets.signingSecret, ageSeconds = 0 }: How = {}) {
  const body = JSON.stringify(value);
  const at = Math.floor(Date.now() / 1000) - ageSeconds;
  const signature = `v0=${createHmac('sha256', key).update(`v0:${at}:${body}`).digest('hex')}`;
  const headers = { 'x-slack-request-timestamp': String(at), 'x-slack-signature': signature };
  return { body, headers: { 'content-type': 'application/json', ...headers } };
}
const message = (fields: object, eventId: string = randomUUIDv7()) => ({
  type: 'event_callback',
  event_id: eventId,
  event: { type: 'message', channel: 'C1', user: 'U1', text: 'hello', ts: '1.1', ...fields },
});

t.test('the address check is answered only for signed requests of Slack', async (t) => {
  const check = { type: 'url_verification', challenge: '3eZbrw1a' };
  const answer = await eventually(async () => {
    const { status, body } = await post(check);
    // A first start may be late on a busy machine: then it was queued.
    return body.ok === true ? null : { status, body };
  });
  t.same(answer, { status: 200, body: '3eZbrw1a' });
  t.match(await post(check, { key: 'other' }), { status: 200, body: { ok: true } });
});

t.test('signed messages of people arrive, each thread as a conversation', async (t) => {
  await post(message({ text: 'a &lt;b&gt; &amp;lt;' }));
  await post(message({ text: 'more', ts: '1.2', thread_ts: '1.1' }));
  await post(message({ text: 'other thread', ts: '2.1' }));
  const previous = { key: secrets.previousSigningSecret };
  await post(message({ text: 'signed with the previous secret', ts: '2.2', thread_ts: '2.1' }), previous);
  await post(message({ text: 'forged' }), { key: 'other' });
  await post(message({ text: 'stale' }), { ageSeconds: 400 });
  await post(message({ text: 'own', bot_id: 'B1' }));
  await post(message({ text: 'edited', subtype: 'message_changed' }));
  await post({ type: 'event_callback', event: { type: 'reaction_added', user: 'U1' } });
  const errors = await address.settled(10);
  t.ok(
    errors.every((error) => error === null),
    'what is not for the agents is no failure',
  );
  t.same(
    (await address.sessions()).map(({ texts }) => texts),
    [
      ['a <b> &lt;', 'more'],
      ['other thread', 'signed with the previous secret'],
    ],
  );
});

t.test('what came in long before the plugin could run is as genuine as it was then', async (t) => {
  const arrived = async () => (await address.sessions()).at(-1)?.texts[0] === 'from before';
  const { body, headers } = signed(message({ text: 'from before', ts: '3.1' }), { ageSeconds: 3_600 });
  const { id: channelId, routingId } = address.channel;
  const { installationId, accountId } = installed;
  await insertDeliveries(fixture.pool, [
    {
      id: randomUUIDv7(),
      channelId,
      routingId,
      installationId,
      accountId,
      method: 'POST',
      query: '',
      receivedAt: Date.now() - 3_600_000,
      headers: Object.entries(headers),
      body: Buffer.from(body),
    },
  ]);
  t.ok(await eventually(arrived));
});

t.test('an event that Slack sends again is not answered again', async (t) => {
  const before = (await address.settled(0)).length;
  const event = message({ text: 'once', ts: '4.1' }, 'Ev1');
  await post(event);
  await post(event);
  await post(message({ text: 'another', ts: '4.2', thread_ts: '4.1' }, 'Ev2'));
  t.same((await address.settled(before + 3)).slice(-3), [null, null, null]);
  t.same((await address.sessions()).at(-1)?.texts, ['once', 'another']);
});

t.test('an event arrives also where the storage is full, and its repetition is answered again', async (t) => {
  const before = (await address.settled(0)).length;
  const { installationId } = installed;
  await fixture.pool.query(
    `INSERT INTO installation_storage (installation_id, key, value, size_bytes) VALUES ($1, 'full', '0', 1048576)`,
    [installationId],
  );
  const event = message({ text: 'kept', ts: '5.1' }, 'Ev3');
  await post(event);
  await post(event);
  t.same((await address.settled(before + 2)).slice(-2), [null, null]);
  t.same((await address.sessions()).at(-1)?.texts, ['kept', 'kept']);
  const [warning] = await fixture.readLog('Could not remember an event, so a repetition of it is answered again');
  t.match(warning, { eventId: 'Ev3', error: { message: /storage is full/ } });
  await fixture.pool.query(`DELETE FROM installation_storage WHERE installation_id = $1 AND key = 'full'`, [
    installationId,
  ]);
});

t.test('a reply goes to its thread, and once more where Slack had refused it', async (t) => {
  const [first] = await address.sessions();
  t.equal((await fixture.call('POST', `/sessions/${first?.id}/replies`, { text: '<!here> 1 & 2' })).status, 202);
  await eventually(async () => posted.length === 2);
  const body = { channel: 'C1', thread_ts: '1.1', text: '&lt;!here&gt; 1 &amp; 2' };
  const once = { path: '/api/chat.postMessage', authorization: 'Bearer xoxb-canary', body };
  t.same(posted, [once, once]);
});
