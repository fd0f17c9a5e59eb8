// Compiled by test/sdk/package.test.ts, never run: what must compile does, and every wrong line is an error.
interface Forecast {
  city: string;
  days?: number;
}
tools.forecast = {
  description: 'The forecast',
  parameters: { type: 'object', properties: { city: { type: 'string', minLength: 1 } }, required: ['city'] },
  async handler({ city, days = 1 }: Forecast, ctx) {
    host.log('asked', { city, days, session: ctx.session.id });
    const secret = await host.secrets.get('apiKey');
    const answer = await host.http.fetch(`https://example.com/${city}`, { headers: { authorization: secret ?? '' } });
    return { content: [{ type: 'text', text: answer.bodyText }], isError: answer.status !== 200 };
  },
};
tools.now = { description: 'The time', parameters: { type: 'object' }, handler: () => new Date().toISOString() };
commands.hello = { description: 'Hello', handler: (input) => ({ text: input }) };
commands.short = { description: 'Short', handler: (input) => input };
tools.plain = { description: 'P', parameters: {}, handler: () => ({ content: [{ type: 'json', json: { a: [1] } }] }) };
providers.acme = {
  models: [{ id: 'm', name: 'M' }],
  chat: async (request) => ({
    text: request.messages[0]?.text ?? '',
    model: 'm',
    usage: { inputTokens: 1, outputTokens: 1 },
  }),
};
channel.receive = (request) => ({
  messages: [{ conversationKey: request.channelId, from: 'ann', text: new TextDecoder().decode(request.bodyBytes) }],
});
channel.handshake = (request) => (request.method === 'GET' ? { status: 200, body: 'ok' } : undefined);
events.pluginInstalled = async (event) => {
  if (event.data.reason === 'install') await host.storage.set(event.id, { seen: true });
};
events.sessionStarted = (event) => host.log(event.data.agentId, event.attempt);
commands.picky = { description: 'P', handler: (input, ctx) => (input === '' ? ctx.cancel('say something') : input) };
events.sessionCleared = async ({ data, signal }) => {
  if (!signal.aborted) host.log('cleared', data.messageCount);
};

// @ts-expect-error a tool without its schema
tools.bare = { description: 'Bare', handler: () => '' };
tools.plain = { description: 'Plain', parameters: {}, handler: () => ({ celsius: [18, null] }) };
// @ts-expect-error a tool answers something
tools.wrong = { description: 'Wrong', parameters: {}, handler: () => {} };
// @ts-expect-error an event that is misspelt
events.pluginInstaled = () => {};
events.pluginUninstalled = (event) => {
  // @ts-expect-error data of another event
  host.log(event.data.reason);
};
// @ts-expect-error nobody reads what an event's handler returns
events.pluginUpdated = (event) => event.data.toSemVer;
// @ts-expect-error what has happened cannot be stopped
events.sessionDeleted = (event) => event.cancel('no');
// @ts-expect-error an event tells of no agent's settings
events.sessionStarted = (event) => host.log(event.settings);
// @ts-expect-error the type of another event
events.sessionStarted = (event) => host.log('x', event.type === 'sessionCleared');
// @ts-expect-error a refusal needs its reason
commands.mute = { description: 'M', handler: (_input, ctx) => ctx.cancel() };
// @ts-expect-error a command's answer is text
commands.count = { description: 'C', handler: (input) => input.length };
// @ts-expect-error a provider without its models
providers.empty = { chat: () => ({ text: '', model: 'm', usage: { inputTokens: 0, outputTokens: 0 } }) };
// @ts-expect-error an answer without its usage
providers.free = { models: [{ id: 'm', name: 'M' }], chat: () => ({ text: '', model: 'm' }) };
// @ts-expect-error a vendor's request cannot be refused
channel.receive = (_request, ctx) => ctx.cancel('no');
// @ts-expect-error a message without whom it is from
channel.receive = () => ({ messages: [{ conversationKey: 'k', text: 'x' }] });
// @ts-expect-error nobody reads what send returns
channel.send = () => 'sent';
// @ts-expect-error a status is a number
channel.handshake = () => ({ status: '200' });
// @ts-expect-error a channel handler that is none
channel.recieve = () => ({ messages: [] });
// @ts-expect-error a member that no capability grants
host.files.read('x');
// @ts-expect-error a method that the member has not
await host.storage.clear();
// @ts-expect-error an argument of another type
await host.storage.get(7);
// @ts-expect-error settings are read, not written
host.settings = {};
class RefusedError extends Error {
  constructor(message: string) {
    super(message);
    Error.captureStackTrace(this, RefusedError);
  }
}
commands.refuse = {
  description: 'R',
  handler() {
    throw new RefusedError('no');
  },
};
