/** `bulkhead login`: takes a token, asks the service whose it is, and keeps it. */
import { DEFAULT_URL, serviceUrl } from '../accounts.ts';
import { askHidden } from '../asking.ts';
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import type { Me } from '../records.ts';
import { Rest } from '../rest.ts';

export const login: Command = {
  name: 'login',
  summary: 'Sign in to a service and keep the token',
  args: [{ name: '[link]', doc: 'the sign-in link that the service printed (…/#token=…), or a bare token' }],
  options: [{ flags: '--token <token>', doc: 'a token, such as `npm run -s token -- <user>` prints' }],
  examples: ["login 'http://localhost:4000/#token=…'", 'login --url https://bulkhead.example --token "$TOKEN"'],
  async run(context, given) {
    const typed =
      given.text('token') ?? given.args[0] ?? (await askHidden(context, 'Paste the sign-in link or a token', NOBODY));
    const { url, token } = splitLink(typed.trim(), await context.url());
    const rest = new Rest({ url, token, signal: context.signal });
    const { id, name } = await rest.get<Me>('/me').catch((error: unknown) => {
      if ((error as { code?: string }).code !== 'unauthenticated') throw error;
      const message = `${url} does not take this token: get a fresh one with \`npm run -s token -- <user>\` where the service runs.`;
      throw new CommandError('unauthenticated', message, { exit: 'notSignedIn' });
    });
    await context.accounts.keep(url, { token, name });
    context.output.say(`Signed in as ${name} at ${url}.`);
    return { id, name, url };
  },
};

const NOBODY = 'Nobody is there to be asked: give the sign-in link or `--token`, or set BULKHEAD_TOKEN.';

/** A sign-in link names the service and the token at once. */
function splitLink(typed: string, url: string): { url: string; token: string } {
  const [address = '', token] = typed.split('#token=');
  if (token !== undefined) return { url: address === '' ? url : serviceUrl(address), token };
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(typed)) {
    const message = `That is no token: paste the sign-in link that \`npm start\` prints, such as ${DEFAULT_URL}/#token=…`;
    throw new CommandError('usage', message, { exit: 'usage' });
  }
  return { url, token: typed };
}
