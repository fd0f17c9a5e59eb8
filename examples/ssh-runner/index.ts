tools.hosts = {
  description: 'Lists the machines that commands can run on, with their ids.',
  parameters: { type: 'object', additionalProperties: false },
  handler: async () => ({ content: [{ type: 'json', json: await host.ssh.hosts() }] }),
};

tools.run = {
  description: 'Runs a shell command on a machine and returns its exit code and output.',
  parameters: {
    type: 'object',
    properties: {
      host: { type: 'string', description: 'The id of the machine' },
      command: { type: 'string', minLength: 1, maxLength: 10_000 },
      input: { type: 'string', maxLength: 100_000, description: 'The input of the command' },
    },
    required: ['host', 'command'],
    additionalProperties: false,
  },

  async handler(args: { host: string; command: string; input?: string }) {
    // If another plugin cancels the command, this rejects with its reason. The agent sees a failed call.
    const done = await host.ssh.run(args.host, args.command, { input: args.input, timeoutMs: 45_000 });
    return { content: [{ type: 'json', json: done }], isError: done.exitCode !== 0 };
  },
};
