/** `bulkhead tokens`: lists, renames and revokes the account's tokens. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { requireByIdOrName } from '../lookup.ts';
import type { Rest } from '../rest.ts';
import type { Token } from '../rest-types.ts';

export const tokens: Command = {
  name: 'tokens',
  summary: 'List, rename and revoke your tokens',
  options: [
    { flags: '--rename <token>', doc: 'give a token, by its id or name, the name of --to' },
    { flags: '--to <name>', doc: 'the new name, such as laptop' },
    { flags: '--revoke <token>', doc: 'revoke a token, by its id or name' },
    { flags: '--revoke-all', doc: 'revoke all tokens, this one as well' },
  ],
  examples: ['tokens', 'tokens --rename token --to laptop', 'tokens --revoke laptop'],
  async run(context, args) {
    const rest = await context.getRest();
    const { output } = context;
    if (args.flag('revokeAll')) {
      await rest.delete('/me/tokens');
      output.printLine('All tokens are revoked. Sign in with another one: bulkhead login');
      return { revoked: 'all' };
    }
    const all = await rest.getAll<Token>('/me/tokens');
    const [revoked, renamed, name] = [args.text('revoke'), args.text('rename'), args.text('to')];
    if (revoked !== undefined) {
      const token = requireToken(all, revoked);
      await rest.delete(`/me/tokens/${token.id}`);
      output.printLine(`“${token.name}” is revoked.`);
      return { revoked: token.id };
    }
    if ((renamed === undefined) !== (name === undefined))
      throw new CommandError('usage', 'Pass --rename and --to together.');
    if (renamed !== undefined) return rename(rest, requireToken(all, renamed), name ?? '', output);
    for (const token of all) output.printLine(describe(token));
    return all;
  },
};

async function rename(rest: Rest, { id }: Token, name: string, output: { printLine(line: string): void }) {
  const token = await rest.patch<Token>(`/me/tokens/${id}`, { name });
  output.printLine(describe(token));
  return token;
}

const describe = ({ id, name, scopes, lastUsedAt, expiresAt, current }: Token): string =>
  `${id}  ${name}${current ? ' (this one)' : ''}, ${scopes ? `only ${scopes.join(' and ')}, ` : ''}used ${lastUsedAt ?? 'never'}, expires ${expiresAt}`;

const requireToken = (all: readonly Token[], wanted: string): Token =>
  requireByIdOrName(all, wanted, {
    missing: 'You have no token with this id or name',
    ambiguous: 'Several tokens have this name; pass an id',
    list: 'bulkhead tokens',
  });
