import { inTurn } from './turns.ts';

const keyOf = (sessionId: string) => `messages/${sessionId}`;
const countOf = async (key: string) => Number((await host.storage.get(key)) ?? 0);

middleware.inboundMessage = async (ctx) => {
  const key = keyOf(ctx.session.id);
  // Reading and writing are two calls, so calls run one after the other and no message is lost.
  await inTurn(async () => host.storage.set(key, (await countOf(key)) + 1));
};

events.sessionDeleted = async ({ data }) => {
  // Idempotent, because an event may arrive twice.
  await inTurn(() => host.storage.delete(keyOf(data.sessionId)));
};

tools.read = {
  description: 'Tells how many messages came in: in this session, and in all sessions.',
  parameters: { type: 'object', additionalProperties: false },
  async handler(_args, ctx) {
    const keys = await host.storage.list('messages/');
    let all = 0;
    for (const key of keys) all += await countOf(key);
    const here = await countOf(keyOf(ctx.session.id));
    return { content: [{ type: 'json', json: { here, all, sessions: keys.length } }] };
  },
};
