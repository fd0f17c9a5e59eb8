/** `bulkhead login`: checks a token and stores it. */
import { hasCode } from '../../session/transport.ts';
import { normalizeServiceUrl } from '../accounts.ts';
import type { Command, ParsedArgs } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { Rest } from '../rest.ts';
import type { Account } from '../rest-types.ts';
import { askForSecret } from '../terminal-prompts.ts';

export const login: Command = {
  name: 'login',
  summary: 'Sign in to a service and store the token',
  args: [{ name: '[link]', doc: 'link with a token (…/#token=…); better pasted when asked for it' }],
  options: [{ flags: '--token <->', doc: 'read the token or link from standard input' }],
  examples: ['login', 'npm run -s token -- ann | bulkhead login --url https://bulkhead.example --token -'],
  async run(context, args) {
    const input = await readSignIn(context, args);
    const { url, token } = parseSignInLink(input.trim(), await context.getUrl());
    await context.requireService(url);
    const rest = new Rest({ url, token, signal: context.signal });
    const { id, name } = await rest.get<Account>('/me').catch((error: unknown) => {
      if (!hasCode(error, 'unauthenticated')) throw error;
      const message = `${url} refused the token. Get a new one with \`npm run -s token -- <user>\` on the service’s machine.`;
      throw new CommandError('unauthenticated', message);
    });
    await context.accounts.save(url, { token, name });
    context.output.printLine(`Signed in as ${name} at ${url}.`);
    const { environmentToken } = context;
    if (environmentToken !== undefined && environmentToken !== token)
      context.output.printWarning('Commands use the token in BULKHEAD_TOKEN instead, until you unset it.');
    return { id, name, url };
  },
};

const ON_COMMAND_LINE = 'Other users of this machine can read a command line.';
const NO_TERMINAL =
  'There is no terminal to ask for a token. Pipe the token into `bulkhead login --token -`, or set BULKHEAD_TOKEN.';

/** Returns a token or a link with one. @throws CommandError */
async function readSignIn(context: Context, args: ParsedArgs): Promise<string> {
  const option = args.text('token');
  if (option === '-') return context.readInput();
  if (option !== undefined) {
    const message = `${ON_COMMAND_LINE} Pipe the token into \`bulkhead login --token -\`, or run \`bulkhead login\` and paste it.`;
    throw new CommandError('usage', message);
  }
  const [link] = args.positional;
  if (link !== undefined) {
    const { output } = context;
    output.printNote(
      `${output.paint.yellow('warning')} ${ON_COMMAND_LINE} Run \`bulkhead login\` and paste the link instead.`,
    );
    return link;
  }
  if (!context.canAsk && context.environmentToken !== undefined) return context.environmentToken;
  return askForSecret(context, 'Paste a token', NO_TERMINAL);
}

/** A link has the address of the service and a token; a token alone is for the current service. */
function parseSignInLink(input: string, url: string): { url: string; token: string } {
  const [address = '', token] = input.split('#token=');
  if (token !== undefined) return { url: address === '' ? url : normalizeServiceUrl(address), token };
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(input)) {
    const isConsoleLink = input.includes('#code=');
    const what = isConsoleLink ? 'That link signs in to the console only.' : 'That is not a token.';
    throw new CommandError('usage', `${what} \`npm run -s token -- <user>\` on the service’s machine prints a token.`);
  }
  return { url, token: input };
}
