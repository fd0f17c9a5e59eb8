/** `bulkhead logout`: removes the stored token. */
import type { Command } from '../command.ts';

export const logout: Command = {
  name: 'logout',
  summary: 'Remove the stored token of a service',
  async run(context) {
    const url = await context.getUrl();
    const forgotten = await context.accounts.remove(url);
    context.output.printLine(forgotten ? `Signed out of ${url}.` : `You were not signed in at ${url}.`);
    return { url, forgotten };
  },
};
