// Compiled by test/sdk/package.test.ts, never run: what must compile does, and every wrong line is an error.
middleware.systemPrompt = (ctx) => `${ctx.systemPrompt}\n${ctx.settings.tone ?? 'friendly'}`;
middleware.systemPrompt = async (ctx) => (ctx.signal.aborted ? undefined : ctx.systemPrompt);
middleware.systemPrompt = () => {};
middleware.inboundMessage = (ctx) => {
  if (ctx.message.text === '') ctx.cancel('empty');
  if (ctx.session.channelId === null) return;
  return { message: { text: ctx.message.text.trim() } };
};
middleware.todoUpdate = (ctx) => ({ changes: { ...ctx.changes, notes: '' } });
middleware.todoDelete = async (ctx) => ctx.cancel('no');
middleware.toolCall = ({ call }) => ({ call: { arguments: { ...(call.arguments as object), checked: true } } });
middleware.toolResult = ({ result }) => ({ result: { content: result.content, isError: true } });
compaction.summarize = async ({ messages, focus, maxChars }) =>
  `${messages.map((message) => message.text).join()} ${focus ?? ''}`.slice(0, maxChars);

// @ts-expect-error a hook that is misspelt
middleware.systemPromt = () => 'x';
// @ts-expect-error a hook of the other group
middleware.summarize = () => 'x';
// @ts-expect-error a prompt is a string
middleware.systemPrompt = () => 7;
// @ts-expect-error a prompt is replaced, not patched
middleware.systemPrompt = () => ({ systemPrompt: 'x' });
// @ts-expect-error the system prompt cannot be vetoed
middleware.systemPrompt = (ctx) => ctx.cancel('no');
// @ts-expect-error neither can a summary
compaction.summarize = (ctx) => ctx.cancel('no');
// @ts-expect-error nor what a command has put out
middleware.sshCommandOutput = (ctx) => ctx.cancel('no');
// @ts-expect-error a veto needs its reason
middleware.todoDelete = (ctx) => ctx.cancel();
// @ts-expect-error a patch is an object
middleware.inboundMessage = () => 'hello';
// @ts-expect-error a field that is misspelt
middleware.inboundMessage = () => ({ message: { txt: 'hello' } });
// @ts-expect-error a field that may be read and not changed
middleware.inboundMessage = () => ({ message: { text: 'hello', from: 'eve' } });
// @ts-expect-error a field of another type
middleware.inboundMessage = async () => ({ message: { text: 7 } });
// @ts-expect-error nothing can be changed there
middleware.todoComplete = () => ({ by: 'eve' });
// @ts-expect-error a field that this context has not
middleware.sessionClear = (ctx) => host.log(ctx.message);
