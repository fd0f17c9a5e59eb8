const INSTRUCTIONS = `You run the stand-up of a crew of agents. Others report to you what they start and finish.
Asked what happened, answer with one line for each agent: done, doing, stuck.`;

let finding: Promise<string> | undefined;

/** Returns the agent's id. Handlers run at the same time: they share one search, so that they do not create two agents. */
function standupAgent(): Promise<string> {
  finding ??= findOrCreateAgent().finally(() => {
    finding = undefined;
  });
  return finding;
}

/** Creates the agent if it does not exist yet or was removed. */
async function findOrCreateAgent(): Promise<string> {
  const known = await host.storage.get('agentId');
  const agents = await host.agents.list();
  if (typeof known === 'string' && agents.some(({ id }) => id === known)) return known;

  const { id } = await host.agents.create({ name: 'Stand-up', instructions: INSTRUCTIONS });
  await host.storage.set('agentId', id);
  return id;
}

// Runs again with “set up again” and after a crash, so it must be idempotent.
events.pluginInstalled = async () => {
  await standupAgent();
};

events.sessionStarted = async ({ id, data }) => {
  const agentId = await standupAgent();
  // A message to the agent starts a session. Without this line, that would trigger another message, and so on.
  if (data.agentId === agentId) return;

  // One message per event, however often it is delivered.
  if ((await host.storage.get('lastEvent')) === id) return;
  await host.agents.send(agentId, `${data.agentId} started a session.`);
  await host.storage.set('lastEvent', id);
};

events.pluginUninstalled = async () => {
  // The agent is removed automatically. Resources elsewhere, such as at a vendor, would be removed here.
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
