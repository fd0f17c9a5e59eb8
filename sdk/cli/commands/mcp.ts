/** `bulkhead mcp`: serves all installed plugins as a Model Context Protocol server on standard input and output. */
import type { Command } from '../command.ts';
import { McpBridge } from '../mcp-bridge.ts';

export const mcp: Command = {
  name: 'mcp',
  summary: 'Serve your installed plugins to an MCP client that starts a command',
  options: [
    { flags: '--session <id>', doc: 'session to use (default: a temporary one)' },
    { flags: '--agent <id>', doc: 'agent of a temporary session (default: mcp)' },
  ],
  examples: ['mcp', 'mcp --session 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11'],
  endsWithOutput: true,
  async run(context, args) {
    const client = await context.getSessions();
    const sessionId = args.text('session');
    const agentId = args.text('agent') ?? 'mcp';
    const session =
      sessionId === undefined ? await client.start({ agentId, agentName: 'MCP client' }) : client.open(sessionId);
    const transport = await context.getSessionTransport();
    const bridge = new McpBridge(transport, `/sessions/${encodeURIComponent(session.id)}/mcp`, {
      lines: context.readLines(),
      // Standard output carries protocol messages only.
      send: (message) => context.output.write(`${JSON.stringify(message)}\n`),
      signal: context.signal,
    });
    try {
      await bridge.run();
    } finally {
      if (sessionId === undefined) await session.delete().catch(() => undefined);
    }
    return undefined;
  },
};
