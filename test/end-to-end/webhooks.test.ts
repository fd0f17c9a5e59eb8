/** From a vendor's request to the plugin and back: the webhook address in front of a supervisor, with nothing between. */
import { createHash, createHmac, randomUUIDv7 } from 'node:crypto';
import { stripTypeScriptTypes } from 'node:module';
import t from 'tap';
import { insertChannel } from '../../db/channels/channels.ts';
import { insertDeliveries } from '../../db/channels/deliveries.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { templates } from '../../sdk/cli/templates.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { serveWebhooks } from '../api/ingress/serving.ts';
import { send } from '../api/ingress/webhook-fixture.ts';
import { signers } from '../fixtures/signers.ts';
import { eventually } from '../runner/eventually.ts';
import { seededRandom } from '../runner/random.ts';
import { amount, soakTest } from '../runner/soak.ts';
import { type PluginSource, startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';

/** Random bodies. */
const BODIES = amount({ quick: 30, soak: 10_000 });
const random = seededRandom();

const secretOf = (text: string) => `whsec_${Buffer.from(text).toString('base64')}`;
const [SECRET, OTHER_SECRET] = [secretOf('a secret of twenty-four b'), secretOf('another secret, same form')];
const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, value) => value));

const fixture = await startSupervisorFixture(t);
const port = await serveWebhooks(t, { ...fixture, onError: (error) => t.comment(error.message) });

async function connect(
  code: string,
  secrets: Record<string, string> = {},
  declared: Pick<PluginSource, 'capabilities' | 'secretUses'> = {},
) {
  const { installationId, accountId } = await fixture.install({ code, secrets, ...declared });
  const channel = await inTransaction(fixture.pool, (tx) =>
    insertChannel(tx, { installationId, accountId, name: 'in' }),
  );
  const path = `/webhook/plugin/${channel.routingId}`;
  return {
    channel,
    post: (body: Buffer | string, headers: Record<string, string> = {}) => send({ port, path, headers }, body),
    /** Stores a request that arrived earlier and still waits. */
    store: (body: string, headers: Record<string, string>, receivedAt: number) =>
      insertDeliveries(fixture.pool, [
        {
          id: randomUUIDv7(),
          channelId: channel.id,
          routingId: channel.routingId,
          installationId,
          accountId,
          receivedAt,
          method: 'POST',
          query: '',
          headers: Object.entries(headers),
          body: Buffer.from(body),
        },
      ]),
    call: (method: string, headers: Record<string, string>) => send({ port, path, method, headers }),
    get: (query: string) => send({ port, path: `${path}?${query}`, method: 'GET' }),
    settled: (count: number) =>
      eventually(
        async () => {
          const found = await fixture.pool.query(
            `SELECT id, state, last_error FROM deliveries WHERE channel_id = $1 AND state <> 'pending' ORDER BY position`,
            [channel.id],
          );
          return found.rows.length >= count && found.rows;
        },
        60_000 + 30 * BODIES,
      ),
  };
}

/** Texts that the plugin's messages brought into the account's sessions, oldest first. */
async function transcript(channelId: string): Promise<string[]> {
  const found = await fixture.pool.query<{ text: string }>(
    `SELECT m.text FROM session_messages m JOIN conversations k ON k.session_id = m.session_id
      WHERE k.channel_id = $1 ORDER BY m.position`,
    [channelId],
  );
  return found.rows.map(({ text }) => text);
}

t.test('every byte, header and request arrives in the plugin, in order', async (t) => {
  const { channel, post, settled } = await connect(`channel.receive = async (request) => {
    const digest = Array.from(new Uint8Array(await crypto.subtle.digest('SHA-256', request.bodyBytes)), (b) => b.toString(16).padStart(2, '0')).join('');
    const own = request.rawHeaders.filter(([name]) => name.startsWith('X-')).map(([name, value]) => name + '=' + value).join(';');
    return { messages: [{ conversationKey: 'k', from: 'vendor', text: digest + ' ' + own }] };
  };`);
  const expected: string[] = [];
  for (let index = 0; index < BODIES; index += 1) {
    // All 256 values first; then mostly small, now and then large.
    const body = index === 0 ? ALL_BYTES : random.bytes(Math.floor(2 ** (random.integer(0, 1_500) / 100)));
    const value = random.bytes(4).toString('hex');
    const answer = await post(body, { 'X-One': value, 'X-Two': 'é' });
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    expected.push(`${createHash('sha256').update(body).digest('hex')} X-One=${value};X-Two=é`);
  }
  const large = Buffer.alloc(5 * MIB, 'x');
  t.equal((await post(large)).status, 200);
  expected.push(`${createHash('sha256').update(large).digest('hex')} `);
  await settled(BODIES + 1);
  t.same(await transcript(channel.id), expected);
});

t.test('what independent signers sign is verified inside the plugin, over the exact bytes', async (t) => {
  const { channel, post, settled } = await connect(
    `channel.receive = async (request) => {
      const ok = await webhooks[request.headers['x-check']](request, await host.secrets.get('key'));
      return { messages: [{ conversationKey: 'k', from: 'vendor', text: ok ? 'genuine' : 'forged' }] };
    };`,
    { key: SECRET },
  );
  const body = '{"type":"order.paid","note":"ünïcödé ✓"}';
  for (const { verify, sign } of signers) {
    const headers = { ...(await sign(body, SECRET, new Date())), 'x-check': verify };
    await post(body, headers);
    await post(flipped(body), headers);
    await post(body, { ...(await sign(body, OTHER_SECRET, new Date())), 'x-check': verify });
  }
  const raw = Buffer.concat([Buffer.from('{"a":"ü"}'), ALL_BYTES]);
  const signature = createHmac('sha256', SECRET).update(raw).digest('hex');
  await post(raw, { 'x-hub-signature-256': `sha256=${signature}`, 'x-check': 'verifyGitHub' });
  await settled(3 * signers.length + 1);
  const expected = signers.flatMap(({ name }) => [`${name} genuine`, `${name} forged`, `${name} forged`]);
  const messages = await transcript(channel.id);
  const named = messages.map((text, index) => `${signers[Math.floor(index / 3)]?.name ?? 'no text'} ${text}`);
  t.same(named, [...expected, 'no text genuine']);
});

/** Connects the plugin that `bulkhead init --template channel` creates. */
function connectTemplate() {
  const template = templates.find(({ name }) => name === 'channel');
  return connect(
    stripTypeScriptTypes(template?.code ?? ''),
    { webhookSecret: SECRET },
    { capabilities: ['host.http:api.example.com'], secretUses: { webhookSecret: ['webhooks'] } },
  );
}

t.test('a genuine request that waited an hour is verified by the time at which it arrived', async (t) => {
  const { channel, store, settled } = await connectTemplate();
  const scheme = signers.find(({ verify }) => verify === 'verifyStandard');
  const arrived = Date.now() - 3_600_000;
  const storeSigned = async (text: string, signedAt: number) => {
    const body = JSON.stringify({ chat: 'k', from: 'vendor', text });
    await store(body, (await scheme?.sign(body, SECRET, new Date(signedAt))) ?? {}, arrived);
  };
  await storeSigned('genuine', arrived - 2_000);
  await storeSigned('captured and sent again', arrived - 302_000);
  await storeSigned('signed after it arrived', Date.now());
  await settled(3);
  t.same(await transcript(channel.id), ['genuine']);
});

soakTest(t, 'forged requests that are too large to verify do not delay a genuine one', async (t) => {
  const { channel, post, settled } = await connectTemplate();
  const forged = 4;
  for (let count = 0; count < forged; count += 1)
    t.equal((await post(Buffer.alloc(4_200_000), { 'webhook-signature': 'v1,AAAA' })).status, 200);
  const body = '{"chat":"k","from":"vendor","text":"genuine"}';
  const scheme = signers.find(({ verify }) => verify === 'verifyStandard');
  t.equal((await post(body, await scheme?.sign(body, SECRET, new Date()))).status, 200);
  const deliveries = await settled(forged + 1);
  t.same(
    deliveries.map(({ state, last_error }) => [state, last_error]),
    Array(forged + 1).fill(['delivered', null]),
    'no attempt failed, so none was repeated after a wait',
  );
  t.same(await transcript(channel.id), ['genuine']);
});

/** One bit of the body is another. */
function flipped(body: string): Buffer {
  const bytes = Buffer.from(body);
  const at = random.integer(0, bytes.length);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes;
}

t.test('a check of the address is answered at once, and nothing is queued', async (t) => {
  const { post, get, settled } = await connect(`
    channel.receive = () => undefined;
    channel.handshakeOn = { jsonType: 'url_verification' };
    channel.handshake = (request) => {
      if (request.method === 'GET') {
        const challenge = new URL('http://x/?' + request.query).searchParams.get('challenge');
        return challenge ? { status: 200, headers: { 'Content-Type': 'text/html', 'X-Hook-Secret': 's', 'Set-Cookie': 'a=b', 'X-Accel-Redirect': '/secret', 'X-Sendfile': '/etc/passwd', 'X-Request-Id': 'mine' }, body: challenge } : undefined;
      }
      return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ challenge: JSON.parse(request.bodyText).challenge }) };
    };`);
  const checked = await get('challenge=abc');
  t.match(checked, {
    status: 200,
    body: 'abc',
    headers: { 'x-hook-secret': 's', 'content-security-policy': /sandbox/ },
  });
  t.match(checked.headers['x-request-id'], /^[0-9a-f-]{36}$/, 'the service’s own');
  for (const name of ['set-cookie', 'x-accel-redirect', 'x-sendfile']) t.notOk(name in checked.headers, name);
  t.match(await post(JSON.stringify({ type: 'url_verification', challenge: 'q' })), { body: { challenge: 'q' } });
  t.match(await get('nothing=1'), { status: 200, body: { ok: true } }, 'no answer: queued as usual');
  t.match(await post(JSON.stringify({ type: 'message' })), { status: 200, body: { ok: true } });
  t.match(await post('{"type":"url_verification"'), { status: 200, body: { ok: true } }, 'no JSON is no handshake');
  t.equal((await settled(3)).length, 3);
});

t.test('vendors that check an address by OPTIONS, or by a header of a POST, are answered', async (t) => {
  const { call, settled } = await connect(`
    channel.receive = () => undefined;
    channel.handshakeOn = { header: 'X-Hook-Secret' };
    channel.handshake = ({ method, headers }) => method === 'OPTIONS'
      ? { status: 200, headers: { 'webhook-allowed-origin': headers['webhook-request-origin'] } }
      : { status: 204, headers: { 'x-hook-secret': headers['x-hook-secret'] } };`);
  t.match(await call('OPTIONS', { 'webhook-request-origin': 'events.example' }), {
    status: 200,
    headers: { 'webhook-allowed-origin': 'events.example' },
  });
  t.match(await call('POST', { 'x-hook-SECRET': 'abc' }), { status: 204, headers: { 'x-hook-secret': 'abc' } });
  t.match(await call('POST', { 'x-hook-signature': 'abc' }), { status: 200, body: { ok: true } }, 'an event');
  t.match(await call('PUT', { 'x-hook-secret': 'abc' }), { status: 200, body: { ok: true } });
  t.equal((await settled(2)).length, 2);
});

t.test('a plugin that is late or wrong does not keep the vendor', async (t) => {
  const { get, settled } = await connect(`
    channel.receive = () => undefined;
    channel.handshake = (request) => ({
      late: new Promise(() => undefined),
      wrong: { status: 7 },
      lines: { status: 200, headers: { 'content-type': 'text/plain\\nx: y' } },
    })[request.query];`);
  const started = performance.now();
  t.match(await get('late'), { status: 200, body: { ok: true } });
  t.ok(performance.now() - started < 10_000);
  t.match(await get('wrong'), { status: 200, body: { ok: true } });
  t.match(await get('lines'), { status: 200, body: { ok: true } });
  await settled(3);
});
