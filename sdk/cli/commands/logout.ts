/** `bulkhead logout`: forgets the kept token. */
import type { Command } from '../command.ts';

export const logout: Command = {
  name: 'logout',
  summary: 'Forget the token kept for a service',
  async run(context) {
    const url = await context.url();
    const forgotten = await context.accounts.forget(url);
    context.output.say(forgotten ? `Signed out of ${url}.` : `Nobody was signed in at ${url}.`);
    return { url, forgotten };
  },
};
