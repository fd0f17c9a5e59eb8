/** Contract: channels and webhooks. */
import { requireBodyLimit } from '../announced-body.ts';
import { ensure, expect, holding, isText } from '../expect.ts';
import { type Chapter, row, unchecked } from '../row.ts';
import type { Run } from '../run.ts';

const connect = async (run: Run, name: string) => {
  const { installationId } = await run.kit();
  const path = `/installations/${installationId}/channels`;
  const { id, webhookUrl } = await run.own.need(run.own.post(path, { name }), 201);
  const url = run.webhookAddress(webhookUrl);
  return { id, path: `${path}/${id}`, url, routingId: webhookUrl.split('/').at(-1) };
};
const channel = (run: Run) => run.once('channel', () => connect(run, 'desk'));
const deliver = async (run: Run, init: RequestInit = {}, suffix = '') => {
  const { url } = await channel(run);
  const response = await fetch(`${url}${suffix}`, { method: 'POST', ...init });
  return { status: response.status, body: JSON.parse(await response.text()), headers: response.headers };
};
/** What channel.receive got. */
const received = async (run: Run, text: string, attempt = 1) => {
  const { watch } = await run.kit();
  const line = await watch.find(
    'the delivery',
    ({ message, data }) => message === 'delivery' && data.bodyText === text && data.attempt === attempt,
  );
  return line.data;
};
const conversation = (run: Run) =>
  run.once('conversation', async () => {
    await deliver(run, { body: 'say hello desk' });
    const { id } = await channel(run);
    return run.until('the conversation', async () => {
      const { items } = (await run.own.session('GET', '/sessions?limit=1000')).body;
      return items.find(({ channelId }: { channelId: string }) => channelId === id);
    });
  });

export const channels: Chapter = {
  title: 'Contract: channels and webhooks',
  rows: [
    row(
      'channel.receive gets deliveryId, attempt, channelId, routingId, receivedAt, method, query, headers, rawHeaders, bodyText, bodyBytes.',
      async (run) => {
        const { id, routingId } = await channel(run);
        const { body } = await deliver(run, { body: 'all fields' }, '?a=1&b=%20');
        expect(await received(run, 'all fields'), {
          deliveryId: body.id,
          attempt: 1,
          channelId: id,
          routingId,
          receivedAt: isText,
          method: 'POST',
          query: 'a=1&b=%20',
          headers: { host: isText },
          rawHeaders: Array.isArray,
          bytes: [...Buffer.from('all fields')],
        });
      },
    ),
    row('Headers are lower-cased, and all end-to-end ones are kept.', async (run) => {
      await deliver(run, { body: 'headers', headers: { 'X-Vendor-Signature': 'abc', 'Content-Type': 'text/plain' } });
      expect((await received(run, 'headers')).headers, { 'x-vendor-signature': 'abc', 'content-type': 'text/plain' });
    }),
    row('Exact bytes as Uint8Array; the body is never decoded.', async (run) => {
      const { body } = await deliver(run, { body: new Uint8Array([0xff, 0, 0xfe, 13, 10]) });
      const { watch } = await run.kit();
      const line = await watch.find('the delivery', ({ data }) => data?.deliveryId === body.id);
      expect(line.data.bytes, [0xff, 0, 0xfe, 13, 10]);
    }),
    row('The vendor gets 200 {"ok":true,"id"} once the delivery is committed.', async (run) =>
      expect(await deliver(run, { body: 'committed' }), { status: 200, body: { ok: true, id: isText } }),
    ),
    row('404 for an unknown address.', async (run) => {
      const { url } = await channel(run);
      const response = await fetch(url.replace(/(?<=\/)[^/]+$/, 'A'.repeat(22)), { method: 'POST', body: 'x' });
      await response.body?.cancel();
      expect(response.status, 404);
    }),
    row('410 for a replaced address. Replacing it kills the old one at once.', async (run) => {
      const { path, url } = await connect(run, 'moved');
      const replaced = await run.own.need(run.own.post(`${path}/replace-address`));
      const statuses = [];
      for (const address of [url, run.webhookAddress(replaced.webhookUrl)]) {
        const response = await fetch(address, { method: 'POST', body: 'x' });
        await response.body?.cancel();
        statuses.push(response.status);
      }
      expect(statuses, [410, 200]);
    }),
    row('413 over 5 MiB.', async (run) => {
      const { url } = await channel(run);
      await requireBodyLimit(url, 5 * 1024 * 1024, {});
    }),
    unchecked('429/503 with Retry-After.', 'needs more than 1,500 requests a second, which would load others'),
    row('Any method and content type.', async (run) => {
      for (const method of ['PUT', 'PATCH', 'DELETE']) {
        const text = `by ${method}`;
        const init = { method, body: text, headers: { 'content-type': 'application/x-www-form-urlencoded' } };
        expect((await deliver(run, init)).status, 200, method);
        expect(await received(run, text), { method });
      }
    }),
    row('In order per channel.', async (run) => {
      const texts = Array.from({ length: 5 }, (_, index) => `ordered ${index}`);
      for (const body of texts) await deliver(run, { body });
      await received(run, 'ordered 4');
      const { watch } = await run.kit();
      const seen = watch.lines.flatMap(({ data }) =>
        String(data?.bodyText).startsWith('ordered') ? [data.bodyText] : [],
      );
      expect(seen, texts);
    }),
    row('A failed delivery is attempted again, with the same deliveryId.', async (run) => {
      const { url } = await connect(run, 'flaky');
      await fetch(url, { method: 'POST', body: 'flaky delivery' });
      const [first, second] = [await received(run, 'flaky delivery'), await received(run, 'flaky delivery', 2)];
      expect(second.deliveryId, first.deliveryId);
    }),
    unchecked('6 attempts from 5 s to 1 h with jitter, then a dead letter with replay.', 'takes more than an hour'),
    row('A poisoned delivery never blocks its channel for ever.', async (run) => {
      const { installationId } = await run.kit();
      const poisoned = await deliver(run, { body: 'poison' });
      await received(run, 'poison');
      await deliver(run, { body: 'behind the poison' });
      await received(run, 'poison', 2);
      await received(run, 'behind the poison');
      const path = `/installations/${installationId}/deliveries/${poisoned.body.id}`;
      expect(await run.own.get(path), { status: 200, body: { state: 'pending' } });
      expect(await run.own.post(`${path}/give-up`), { status: 200, body: { state: 'dead' } });
    }),
    row('Returned messages go through inboundMessage into a session.', async (run) => {
      const session = await conversation(run);
      // The session is there a moment before its first message.
      const items = await run.until('the first message', async () => {
        const { body } = await run.own.session('GET', `/sessions/${session.id}/messages`);
        return body.items.length > 0 && body.items;
      });
      expect(items, holding({ role: 'user', text: 'hello desk', data: { conversationKey: 'room', from: 'ann' } }));
    }),
    row('inboundMessage may veto a channel’s message.', async (run) => {
      const session = await conversation(run);
      await deliver(run, { body: 'say cancel rude' });
      await run.until('the notice', async () => {
        const { items } = (await run.own.session('GET', `/sessions/${session.id}/messages`)).body;
        return items.some(
          ({ role, text }: { role: string; text: string }) => role === 'notice' && text.includes('rude'),
        );
      });
    }),
    row('One conversationKey is one session.', async (run) => {
      const session = await conversation(run);
      await deliver(run, { body: 'say again' });
      await run.until('the second message', async () => {
        const { items } = (await run.own.session('GET', `/sessions/${session.id}/messages`)).body;
        return items.some(({ text }: { text: string }) => text === 'again');
      });
    }),
    row('channel.send(message) delivers an agent’s reply.', async (run) => {
      const session = await conversation(run);
      const answer = await run.own.session('POST', `/sessions/${session.id}/replies`, { text: 'A reply' });
      expect(answer, { status: 202, body: { id: isText } });
      const { watch } = await run.kit();
      const line = await watch.find(
        'channel.send',
        ({ message, data }) => message === 'sent' && data.text === 'A reply',
      );
      expect(line, { source: 'channel.send', data: { conversationKey: 'room' } });
    }),
    row('channel.handshake answers on GET at once.', async (run) => {
      const { url } = await channel(run);
      const response = await fetch(`${url}?challenge=1`);
      expect([response.status, await response.text(), response.headers.get('x-hook-secret')], [200, 'shaken ', '1']);
    }),
    row('channel.handshake answers on POST when handshakeOn = {jsonType} matches.', async (run) => {
      const { url } = await channel(run);
      const body = '{"type":"url_verification","challenge":"x"}';
      const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
      expect([response.status, await response.text()], [200, `shaken ${body}`]);
    }),
    row('A handshake of undefined queues as usual.', async (run) => {
      const { url } = await channel(run);
      const response = await fetch(`${url}?none`);
      expect(await response.json(), { ok: true, id: isText });
    }),
    row('Routing id: 128 random bits, base64url.', async (run) => {
      const { routingId } = await channel(run);
      ensure(/^[\w-]{22}$/.test(routingId), routingId);
    }),
    row('Deliveries are listed: channelId, direction, state, attempts, method.', async (run) => {
      const { body } = await deliver(run, { body: 'listed' });
      await received(run, 'listed');
      const { installationId } = await run.kit();
      const found = await run.until('the delivered state', async () => {
        const { items } = (await run.own.get(`/installations/${installationId}/deliveries?limit=1000`)).body;
        return items.find((item: { id: string; state: string }) => item.id === body.id && item.state === 'delivered');
      });
      expect(found, { channelId: (await channel(run)).id, direction: 'in', attempts: 1, method: 'POST' });
    }),
    row('A delivered delivery can be replayed.', async (run) => {
      const { body } = await deliver(run, { body: 'replayed' });
      const { installationId, watch } = await run.kit();
      const path = `/installations/${installationId}/deliveries/${body.id}`;
      await run.until('the delivered state', async () => (await run.own.get(path)).body.state === 'delivered');
      expect((await run.own.post(`${path}/replay`)).status, 200);
      await run.until(
        'the second call',
        async () => watch.lines.filter(({ data }) => data?.deliveryId === body.id).length > 1,
      );
    }),
    row('Another account cannot connect or see channels of this one.', async (run) => {
      const { installationId } = await run.kit();
      expect((await run.other.post(`/installations/${installationId}/channels`, { name: 'x' })).status, 404);
      expect((await run.other.get(`/installations/${installationId}/deliveries`)).status, 404);
    }),
    row('A disconnected channel answers 410.', async (run) => {
      const { path, url } = await connect(run, 'gone');
      expect((await run.own.delete(path)).status, 204);
      const response = await fetch(url, { method: 'POST', body: 'x' });
      await response.body?.cancel();
      expect(response.status, 410);
    }),
  ],
};
