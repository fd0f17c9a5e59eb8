/** Operator commands for accounts and their tokens. */
import { BUILT_IN_ISSUER, hasActiveOperator, moveAccounts, pageAccounts } from '../../db/accounts/accounts.ts';
import { pageTokens, revokeAllTokens, revokeToken } from '../../db/accounts/issued-tokens.ts';
import { changeOperator, changeSuspension } from '../../db/accounts/moderation.ts';
import { afterOption, formatNext, formatTable, type OperatorCommand, readText, UsageError } from './command.ts';
import { readReason, requireAccount } from './moderation.ts';

/** Maximum number of listed accounts or tokens. */
const LINES_MAX = 1_000;

/** Without an operator who is not suspended, only this command can change anything. */
const NO_OPERATOR = 'There is no other operator: appoint one with npm run -s operator -- appoint <user>.';

export const accounts: OperatorCommand = {
  subjects: [],
  doc: 'accounts with issuer and rights, newest first',
  options: {
    name: { type: 'string', value: 'text', doc: 'only those whose name contains the text' },
    operators: { type: 'boolean', doc: 'only operators' },
    after: afterOption,
  },
  async run(args, context) {
    const { pool } = await context.database();
    const page = { limit: LINES_MAX, cursor: readText(args, 'after') ?? undefined };
    const onlyOperators = args.options.operators === true;
    const { items, nextCursor } = await pageAccounts(pool, readText(args, 'name'), page, onlyOperators);
    const lines = items.map(({ name, issuer, operator, verifiedAt, suspendedReason, createdAt }) => ({
      ACCOUNT: name,
      ISSUER: issuer,
      OPERATOR: operator ? 'yes' : null,
      VERIFIED: verifiedAt === null ? null : 'yes',
      SUSPENDED: suspendedReason,
      CREATED: createdAt,
    }));
    const left = nextCursor === null ? '' : `\n${formatNext(nextCursor)}`;
    return { sentence: formatTable(lines, 'No account matches.') + left, fields: { accounts: items, nextCursor } };
  },
};

export const suspend: OperatorCommand = {
  subjects: ['user'],
  doc: 'refuse all requests of an account and stop its plugins; their webhooks wait; the user sees the reason',
  options: { reason: { type: 'string', value: 'reason', isRequired: true, doc: 'shown to the user' } },
  async run(args, context) {
    const [given = ''] = args.subjects;
    const reason = readReason(args, 'suspend', 'the user sees');
    const { pool } = await context.currentDatabase();
    const { name: user, operator } = await requireAccount(pool, given);
    await changeSuspension(pool, user, reason);
    const hasOperators = await hasActiveOperator(pool);
    const warning = operator && !hasOperators ? `\n${NO_OPERATOR}` : '';
    return { sentence: `“${user}” is suspended: ${reason}${warning}`, fields: { user, reason, hasOperators } };
  },
};

export const resume: OperatorCommand = {
  subjects: ['user'],
  doc: 'end the suspension of an account',
  async run({ subjects: [given = ''] }, context) {
    const { pool } = await context.currentDatabase();
    const { name: user, suspendedReason } = await requireAccount(pool, given);
    await changeSuspension(pool, user, null);
    const sentence =
      suspendedReason === null ? `“${user}” was not suspended.` : `The suspension of “${user}” has ended.`;
    return { sentence, fields: { user } };
  },
};

export const appoint: OperatorCommand = {
  subjects: ['user'],
  doc: 'give an account operator rights',
  async run({ subjects: [given = ''] }, context) {
    const { pool } = await context.currentDatabase();
    const { name: user } = await requireAccount(pool, given);
    await changeOperator(pool, user, true);
    return { sentence: `“${user}” is an operator.`, fields: { user, operator: true } };
  },
};

export const demote: OperatorCommand = {
  subjects: ['user'],
  doc: 'remove operator rights from an account',
  async run({ subjects: [given = ''] }, context) {
    const { pool } = await context.currentDatabase();
    const { name: user, operator } = await requireAccount(pool, given);
    await changeOperator(pool, user, false);
    const done = operator ? `“${user}” is no longer an operator.` : `“${user}” was not an operator.`;
    const hasOperators = await hasActiveOperator(pool);
    return {
      sentence: hasOperators ? done : `${done} ${NO_OPERATOR}`,
      fields: { user, operator: false, hasOperators },
    };
  },
};

export const tokens: OperatorCommand = {
  subjects: ['user'],
  doc: 'the tokens of an account that have not expired, newest first',
  async run({ subjects: [given = ''] }, context) {
    const { pool } = await context.database();
    const { id, name: user } = await requireAccount(pool, given);
    const { items, nextCursor } = await pageTokens(pool, id, { limit: LINES_MAX });
    const lines = items.map(({ id, name, scopes, createdAt, lastUsedAt, expiresAt }) => ({
      TOKEN: id,
      NAME: name,
      SCOPES: scopes?.join(',') ?? 'all',
      CREATED: createdAt,
      'LAST USED': lastUsedAt,
      EXPIRES: expiresAt,
    }));
    const left =
      nextCursor === null ? '' : `\nOnly the newest ${LINES_MAX} are listed. revoke-tokens also revokes the others.`;
    return {
      sentence: formatTable(lines, `“${user}” has no unexpired token that Bulkhead issued.`) + left,
      fields: { tokens: items },
    };
  },
};

export const revokeOne: OperatorCommand = {
  subjects: ['user', 'token'],
  doc: 'revoke a token of an account, by its id in tokens',
  async run({ subjects: [given = '', token = ''] }, context) {
    const { pool } = await context.currentDatabase();
    const { id, name: user } = await requireAccount(pool, given);
    if (!(await revokeToken(pool, id, token, { subject: user, by: null })))
      throw new Error(`“${user}” has no token with the id “${token}”. See npm run -s operator -- tokens ${user}.`);
    return { sentence: 'The token is revoked.', fields: { user, token } };
  },
};

export const revokeAll: OperatorCommand = {
  subjects: ['user'],
  doc: 'revoke all tokens of an account, also those of an identity provider',
  async run({ subjects: [given = ''] }, context) {
    const { pool } = await context.currentDatabase();
    const { id, name: user } = await requireAccount(pool, given);
    await revokeAllTokens(pool, id, { subject: user, by: null });
    return { sentence: `All tokens of “${user}” are revoked.`, fields: { user } };
  },
};

export const moveAccount: OperatorCommand = {
  subjects: ['user…'],
  doc: 'let tokens of OIDC_ISSUER with the same subject sign in to accounts of the built-in issuer',
  options: {
    all: {
      type: 'boolean',
      doc: 'all of them except operators, for a service that had OIDC_ISSUER set before accounts had issuers',
    },
    back: { type: 'boolean', doc: 'move accounts from OIDC_ISSUER to the built-in issuer: undoes a move' },
  },
  async run({ subjects, options }, context) {
    const issuer = context.settings.OIDC_ISSUER;
    if (issuer === undefined)
      throw new UsageError('move-account needs OIDC_ISSUER: accounts move to that issuer, or from it with --back.');
    if ((subjects.length === 0) === (options.all !== true)) throw new UsageError('Give user names, or --all.');
    if (options.all === true && options.back === true)
      throw new UsageError('Give user names with --back: --all would also move accounts that OIDC_ISSUER has created.');
    const change =
      options.back === true ? { from: issuer, to: BUILT_IN_ISSUER } : { from: BUILT_IN_ISSUER, to: issuer };
    const { pool } = await context.currentDatabase();
    const users: string[] = [];
    const unmoved: string[] = [];
    for (const given of subjects) {
      const { name: user, issuer: current } = await requireAccount(pool, given);
      if (current !== change.from && current !== change.to) throw createOtherIssuerError(user, current);
      (current === change.to ? unmoved : users).push(user);
    }
    const { moved, displaced } = await moveAccounts(pool, change, options.all === true ? null : users);
    const swapped =
      displaced.length === 0
        ? ''
        : ` Accounts of the same subjects moved to ${describeIssuer(change.from)}: ${displaced.join(', ')}.`;
    const rest = unmoved.length === 0 ? '' : ` There already: ${unmoved.join(', ')}.`;
    return {
      sentence: `Accounts moved to ${describeIssuer(change.to)}: ${moved.join(', ') || 'none'}.${swapped}${rest}`,
      fields: { issuer: change.to, moved, displaced, unmoved },
    };
  },
};

const describeIssuer = (issuer: string): string => (issuer === BUILT_IN_ISSUER ? 'the built-in issuer' : issuer);

const createOtherIssuerError = (user: string, issuer: string): Error =>
  new Error(
    `“${user}” is an account of another issuer, ${issuer}. First move it to the built-in issuer: run move-account ${user} --back with OIDC_ISSUER=${issuer}. Nothing was changed.`,
  );
