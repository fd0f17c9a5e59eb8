/** Plugins whose tool `run` asks language models, and what is asked. */

/** The code of a plugin with the tool `run`. @param body of its handler, with `args` and `ctx` */
export const writeTool = (body: string): string =>
  `tools.run = { description: 'd', parameters: { type: 'object' }, handler: async (args, ctx) => { ${body} } };`;

/** Asks what the arguments say; answers the completion or the refusal's message. */
export const ASK = writeTool(`
  const said = await host.llm.complete(args).catch((error) => ({ refused: error.message }));
  return { content: [{ type: 'json', json: said }] };`);

export const hello = { messages: [{ role: 'user', text: 'hello' }] };
