/** What `channel.receive` gets of a stored request. */
import t from 'tap';
import { toRequest } from '../../../supervisor/delivery/webhook-request.ts';

t.test('no session of a console, also if an API of an earlier release stored it', async (t) => {
  const request = toRequest({
    id: 'd1',
    channelId: 'c',
    routingId: 'r',
    conversationKey: null,
    attempt: 1,
    receivedAt: '2026-01-01T00:00:00.000Z',
    method: 'GET',
    query: '',
    headers: [
      ['Cookie', '__Host-bulkhead-session=secret; theme=dark'],
      ['cookie', 'bulkhead-session-4000=secret'],
      ['X-Kind', 'bulkhead-session=none'],
    ],
    body: new Uint8Array(),
  } as unknown as Parameters<typeof toRequest>[0]);
  t.same(request.headers, { cookie: 'theme=dark', 'x-kind': 'bulkhead-session=none' });
  t.same(request.rawHeaders, [
    ['Cookie', 'theme=dark'],
    ['X-Kind', 'bulkhead-session=none'],
  ]);
});
