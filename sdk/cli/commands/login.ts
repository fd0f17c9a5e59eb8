/** `bulkhead login`: checks a token and stores it. */
import { DEFAULT_URL, normalizeServiceUrl } from '../accounts.ts';
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { Rest } from '../rest.ts';
import type { Me } from '../rest-types.ts';
import { askForSecret } from '../terminal-prompts.ts';

export const login: Command = {
  name: 'login',
  summary: 'Sign in to a service and store the token',
  args: [{ name: '[link]', doc: 'sign-in link that the service printed (…/#token=…), or a token' }],
  options: [{ flags: '--token <token>', doc: 'token, as printed by `npm run -s token -- <user>`' }],
  examples: ["login 'http://localhost:4000/#token=…'", 'login --url https://bulkhead.example --token "$TOKEN"'],
  async run(context, args) {
    const input =
      args.text('token') ??
      args.positional[0] ??
      (await askForSecret(context, 'Paste the sign-in link or a token', NO_TERMINAL));
    const { url, token } = parseSignInLink(input.trim(), await context.getUrl());
    const rest = new Rest({ url, token, signal: context.signal });
    const { id, name } = await rest.get<Me>('/me').catch((error: unknown) => {
      if ((error as { code?: string }).code !== 'unauthenticated') throw error;
      const message = `${url} refused the token. Get a new one with \`npm run -s token -- <user>\` on the service’s machine.`;
      throw new CommandError('unauthenticated', message);
    });
    await context.accounts.save(url, { token, name });
    context.output.printLine(`Signed in as ${name} at ${url}.`);
    return { id, name, url };
  },
};

const NO_TERMINAL =
  'There is no terminal to ask for a token. Pass the sign-in link or `--token`, or set BULKHEAD_TOKEN.';

/** A sign-in link has the address of the service and a token; a token alone is for the current service. */
function parseSignInLink(input: string, url: string): { url: string; token: string } {
  const [address = '', token] = input.split('#token=');
  if (token !== undefined) return { url: address === '' ? url : normalizeServiceUrl(address), token };
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(input)) {
    const message = `That is not a token. Pass the sign-in link that \`npm start\` prints, such as ${DEFAULT_URL}/#token=…`;
    throw new CommandError('usage', message);
  }
  return { url, token: input };
}
