/** Of each output. A result may have 256 KiB as JSON, in which a character takes up to 6 bytes. */
const OUTPUT_CHARS = 20_000;

/** Makes an output fit into a result: otherwise the call fails, although the command ran. */
function fit(output: string): string {
  // A result must not contain U+0000.
  const text = output.replaceAll('\0', '\uFFFD');
  return text.length > OUTPUT_CHARS ? `${text.slice(0, OUTPUT_CHARS).toWellFormed()}\n[truncated]\n` : text;
}

tools.hosts = {
  description: 'Lists the machines that commands can run on, with their ids.',
  parameters: { type: 'object', additionalProperties: false },
  handler: async () => ({ content: [{ type: 'json', json: await host.ssh.hosts() }] }),
};

tools.run = {
  description: 'Runs a shell command on a machine and returns its exit code and output. Long output is cut.',
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
    const shown = { ...done, stdout: fit(done.stdout), stderr: fit(done.stderr) };
    return { content: [{ type: 'json', json: shown }], isError: done.exitCode !== 0 };
  },
};
