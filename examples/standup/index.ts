const INSTRUCTIONS = `You run the stand-up of a crew of agents. Others report to you what they start and finish.
Asked what happened, answer with one line for each agent: done, doing, stuck.`;

/** The agent's id. Makes the agent where there is none: at first, and after somebody removed it. */
async function standupAgent(): Promise<string> {
  const known = await host.storage.get('agentId');
  const agents = await host.agents.list();
  if (typeof known === 'string' && agents.some(({ id }) => id === known)) return known;

  const { id } = await host.agents.create({ name: 'Stand-up', instructions: INSTRUCTIONS });
  await host.storage.set('agentId', id);
  return id;
}

// Comes once more with “set up again”, and after a crash: what it does, it finds done the second time.
events.pluginInstalled = async () => {
  await standupAgent();
};

events.sessionStarted = async ({ id, data }) => {
  const agentId = await standupAgent();
  // Writing to the agent starts a session of its own. Without this line that would be news too, and so on without end.
  if (data.agentId === agentId) return;

  // One message for an event, however often it is delivered.
  if ((await host.storage.get('lastEvent')) === id) return;
  await host.agents.send(agentId, `${data.agentId} started a session.`);
  await host.storage.set('lastEvent', id);
};

events.pluginUninstalled = async () => {
  // The agent goes by itself. What lies elsewhere, at a vendor's say, would be cleared up here.
  host.log('Good-bye');
};

tools.report = {
  description: 'Reports to the stand-up what you have done, are doing, or are stuck with.',
  parameters: {
    type: 'object',
    properties: { text: { type: 'string', minLength: 1, maxLength: 2_000 } },
    required: ['text'],
    additionalProperties: false,
  },
  async handler({ text }: { text: string }, ctx) {
    await host.agents.send(await standupAgent(), `${ctx.agent.name}: ${text}`);
    return 'Reported.';
  },
};
