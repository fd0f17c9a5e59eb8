/** `telegram-bot`: updates with the secret become messages, and replies go back to the chat over `host.http`. */
import t from 'tap';
import { eventually } from '../runner/eventually.ts';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { openAddress } from './address.ts';
import { readExample, startVendor } from './example.ts';

const secrets = { botToken: '123456:ABC-canary', webhookSecret: 'long_random-text' };
const sent: { path: string; body: { chat_id: string; text: string } }[] = [];
const statuses = [200, 429];
const vendor = await startVendor(t, ['api.telegram.org'], async (request, response) => {
  sent.push({ path: request.url ?? '', body: JSON.parse((await request.toArray()).join('')) });
  response.writeHead(statuses.shift() ?? 200, { 'content-type': 'application/json' }).end('{}');
});
const fixture = await startSupervisorFixture(t, { http: vendor.http });
const installed = await fixture.install(await readExample('telegram-bot', { secrets, addresses: vendor.addresses }));
const address = await openAddress(t, fixture, installed);

const post = (update: object, secret = secrets.webhookSecret) =>
  address.post(JSON.stringify(update), { 'x-telegram-bot-api-secret-token': secret });
let updates = 0;
const createUpdate = (chat: number, text?: string) => ({
  update_id: ++updates,
  message: { chat: { id: chat }, from: { first_name: 'Ann' }, ...(text === undefined ? {} : { text }) },
});

t.test('updates with the secret arrive, each chat as a conversation', async (t) => {
  const hello = createUpdate(7, 'hello');
  await post(hello);
  // As Telegram does if the response was lost.
  await post(hello);
  await post(createUpdate(-8, 'in a group'));
  await post(createUpdate(7, 'forged'), 'guessed');
  await address.post(JSON.stringify(createUpdate(7, 'bare')));
  await post(createUpdate(7));
  await post({ edited_message: {} });
  await post(createUpdate(7, 'again'));
  t.ok((await address.settled(8)).every((error) => error === null));
  t.same(
    (await address.sessions()).map(({ texts }) => texts),
    [['hello', 'again'], ['in a group']],
  );
});

t.test(
  'a reply goes to its chat, in parts that Telegram takes, and only those that were refused go again',
  async (t) => {
    const [session] = await address.sessions();
    const text = `${'word '.repeat(1_000)}\n${'🙂'.repeat(3_000)}`;
    t.equal((await fixture.call('POST', `/sessions/${session?.id}/replies`, { text })).status, 202);
    const isDelivered = `SELECT state = 'delivered' AS done FROM deliveries WHERE direction = 'out'`;
    await eventually(async () => (await fixture.pool.query(isDelivered)).rows[0]?.done === true);
    const [first, refused, ...others] = sent;
    t.same(refused, others[0], 'the next attempt begins with the part that was refused');
    const parts = [first, ...others].flatMap((part) => part ?? []);
    for (const { path, body } of parts) {
      t.match({ path, chat: body.chat_id }, { path: `/bot${secrets.botToken}/sendMessage`, chat: '7' });
      t.ok(body.text.length <= 4096 && body.text.isWellFormed());
    }
    const whole = parts.map(({ body }) => body.text).join('');
    t.equal(whole.replaceAll(/\s/g, ''), text.replaceAll(/\s/g, ''), 'nothing is lost');
  },
);

t.test('a long reply is sent where the storage is full', async (t) => {
  await fixture.pool.query(
    `INSERT INTO installation_storage (installation_id, key, value, size_bytes) VALUES ($1, 'full', '0', 1048576)`,
    [installed.installationId],
  );
  const [session] = await address.sessions();
  const before = sent.length;
  const text = 'word '.repeat(1_000);
  t.equal((await fixture.call('POST', `/sessions/${session?.id}/replies`, { text })).status, 202);
  const delivered = `SELECT 1 FROM deliveries WHERE direction = 'out' AND state = 'delivered'`;
  await eventually(async () => (await fixture.pool.query(delivered)).rowCount === 2);
  const parts = sent.slice(before).map(({ body }) => body.text);
  t.equal(parts.join('').replaceAll(/\s/g, ''), text.replaceAll(/\s/g, ''), 'each part once');
});
