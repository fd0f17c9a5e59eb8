/** `bulkhead mcp`: everything installed, as a Model Context Protocol server on standard input and output. */
import { Transport } from '../../session/transport.ts';
import type { Command } from '../command.ts';
import { McpBridge } from '../mcp-bridge.ts';

export const mcp: Command = {
  name: 'mcp',
  summary: 'Serve everything you installed to an MCP client that starts a command',
  options: [
    { flags: '--session <id>', doc: 'of this session; else a new one, which ends with the command' },
    { flags: '--agent <id>', doc: 'whose session a new one is; mcp if it is not said' },
  ],
  examples: ['mcp', 'mcp --session 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11'],
  async run(context, given) {
    const { token } = await context.rest();
    const client = await context.sessions();
    const named = given.text('session');
    const agentId = given.text('agent') ?? 'mcp';
    const session = named === undefined ? await client.start({ agentId, agentName: 'MCP client' }) : client.open(named);
    const transport = new Transport({ url: await context.sessionUrl(), token });
    const bridge = new McpBridge(transport, `/sessions/${encodeURIComponent(session.id)}/mcp`, {
      lines: context.lines(),
      // Standard output is the protocol's alone.
      send: (message) => context.output.raw(`${JSON.stringify(message)}\n`),
      signal: context.signal,
    });
    try {
      await bridge.run();
    } finally {
      if (named === undefined) await session.delete().catch(() => undefined);
    }
    return undefined;
  },
};
