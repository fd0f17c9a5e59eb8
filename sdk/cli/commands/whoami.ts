/** `bulkhead whoami`: prints the account and the service. */
import type { Command } from '../command.ts';
import type { Account } from '../rest-types.ts';

export const whoami: Command = {
  name: 'whoami',
  summary: 'Show your account and the service',
  async run(context) {
    const rest = await context.getRest();
    const { id, name } = await rest.get<Account>('/me');
    context.output.printLine(`${name} at ${rest.url}`);
    return { id, name, url: rest.url };
  },
};
