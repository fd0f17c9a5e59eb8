import { inTurn } from './turns.ts';

const formatKey = (sessionId: string) => `messages/${sessionId}`;
const readCount = async (key: string) => Number((await host.storage.get(key)) ?? 0);

middleware.inboundMessage = async (ctx) => {
  // The same message again, because another plugin changed it and the user requires this one.
  if (ctx.repeated) return;
  const key = formatKey(ctx.session.id);
  // Handlers run at the same time, and reading and writing are two calls: in turn, none overwrites the count of another.
  await inTurn(async () => host.storage.set(key, (await readCount(key)) + 1));
};

events.sessionDeleted = async ({ data }) => {
  // Idempotent, because an event may arrive twice.
  await inTurn(() => host.storage.delete(formatKey(data.sessionId)));
};

tools.read = {
  description: 'Tells how many messages came in: in this session, and in all sessions.',
  parameters: { type: 'object', additionalProperties: false },
  async handler(_args, ctx) {
    const keys = await host.storage.list('messages/');
    let all = 0;
    for (const key of keys) all += await readCount(key);
    const here = await readCount(formatKey(ctx.session.id));
    return { content: [{ type: 'json', json: { here, all, sessions: keys.length } }] };
  },
};
