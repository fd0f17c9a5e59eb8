/** `bulkhead whoami`: who commands act as, and where. */
import type { Command } from '../command.ts';
import type { Me } from '../records.ts';

export const whoami: Command = {
  name: 'whoami',
  summary: 'Show who you are signed in as, and where',
  async run(context) {
    const rest = await context.rest();
    const { id, name } = await rest.get<Me>('/me');
    context.output.say(`${name} at ${rest.url}`);
    return { id, name, url: rest.url };
  },
};
