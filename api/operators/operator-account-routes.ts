/** Routes with which operators manage accounts and their tokens. */
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { type Account, findAccountByName, pageAccounts } from '../../db/accounts/accounts.ts';
import { pageTokens, revokeAllTokens, revokeToken } from '../../db/accounts/issued-tokens.ts';
import { changeOperator, changeSuspension } from '../../db/accounts/moderation.ts';
import { mapPage } from '../../db/postgres/cursors.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { noContent, page, pageQuery, storedText } from '../../service/http/schemas.ts';
import { tokenResource, toTokenResource } from '../accounts/token-resource.ts';
import { unknownToken } from '../accounts/token-routes.ts';
import type { Services } from '../services.ts';
import { accountPage, knownAccount, nameParams, suspensionBody } from './operator-resource.ts';
import { requireOperator } from './operator-routes.ts';

/** The longest part of a name that is looked for. Characters. */
const NAME_PART_MAX_CHARS = 200;

const common = { problems: ['operators_only'] } as const;
const ofAccount = { ...common, params: nameParams, response: { 200: knownAccount } } as const;
const shapes = {
  list: {
    ...common,
    summary: 'Accounts, newest first',
    querystring: pageQuery.extend({ name: storedText(NAME_PART_MAX_CHARS).optional().describe('A part of the name.') }),
    response: { 200: accountPage },
  },
  suspend: {
    ...ofAccount,
    summary: 'Suspends an account',
    details:
      'Its tokens are refused and its streams end at once. Nothing of its installations runs; webhooks and events for them are stored and wait. Plugins that it published keep running for others.',
    body: suspensionBody,
  },
  resume: { ...ofAccount, summary: 'Ends the suspension of an account' },
  appoint: { ...ofAccount, summary: 'Gives an account operator rights' },
  demote: { ...ofAccount, summary: 'Removes operator rights from an account' },
  tokens: {
    ...common,
    summary: 'The tokens of an account that have not expired, newest first',
    params: nameParams,
    querystring: pageQuery,
    response: { 200: page(tokenResource) },
  },
  revoke: {
    ...common,
    summary: 'Revokes a token of an account',
    params: nameParams.extend({ id: z.string() }),
    response: { 204: noContent },
  },
  revokeAll: {
    ...common,
    summary: 'Revokes all tokens of an account',
    details: 'Those of an identity provider as well, and those from before tokens had records.',
    params: nameParams,
    response: { 204: noContent },
  },
} satisfies Record<string, FastifySchema>;

export function operatorAccountRoutes({ pool }: Pick<Services, 'pool'>): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Operators');
    requireOperator(app);
    const requireAccount = async (name: string): Promise<Account> =>
      (await findAccountByName(pool, name)) ?? throwUnknown();

    app.get('/operator/accounts', { schema: shapes.list }, async (request) => {
      const { name = null, ...query } = request.query;
      return mapPage(await pageAccounts(pool, name, query), toKnownAccount);
    });

    app.post('/operator/accounts/:name/suspend', { schema: shapes.suspend }, async (request) => {
      const { params, body } = request;
      const by = requireOther(request, params.name, 'suspend');
      return toKnownAccount((await changeSuspension(pool, params.name, body.reason, by)) ?? throwUnknown());
    });

    app.post('/operator/accounts/:name/resume', { schema: shapes.resume }, async (request) => {
      const { name } = requireCaller(request);
      return toKnownAccount((await changeSuspension(pool, request.params.name, null, name)) ?? throwUnknown());
    });

    app.post('/operator/accounts/:name/appoint', { schema: shapes.appoint }, async (request) => {
      const { name } = requireCaller(request);
      return toKnownAccount((await changeOperator(pool, request.params.name, true, name)) ?? throwUnknown());
    });

    app.post('/operator/accounts/:name/demote', { schema: shapes.demote }, async (request) => {
      const by = requireOther(request, request.params.name, 'demote');
      return toKnownAccount((await changeOperator(pool, request.params.name, false, by)) ?? throwUnknown());
    });

    app.get('/operator/accounts/:name/tokens', { schema: shapes.tokens }, async (request) => {
      const { id } = await requireAccount(request.params.name);
      const { tokenId } = requireCaller(request);
      return mapPage(await pageTokens(pool, id, request.query), (token) => toTokenResource(token, tokenId));
    });

    app.delete('/operator/accounts/:name/tokens/:id', { schema: shapes.revoke }, async (request, reply) => {
      const { id: accountId, name } = await requireAccount(request.params.name);
      const operator = { subject: name, by: requireCaller(request).name };
      if (!(await revokeToken(pool, accountId, request.params.id, operator))) throw unknownToken();
      return reply.code(204).send();
    });

    app.delete('/operator/accounts/:name/tokens', { schema: shapes.revokeAll }, async (request, reply) => {
      const { id, name } = await requireAccount(request.params.name);
      await revokeAllTokens(pool, id, { subject: name, by: requireCaller(request).name });
      return reply.code(204).send();
    });
  };
}

const throwUnknown = (): never => {
  throw new Problem('not_found', 'No account has this name. The first sign-in creates it.');
};

/** An operator who locks out their own account could not undo it. @returns the caller's name */
function requireOther(request: FastifyRequest, name: string, verb: string): string {
  const caller = requireCaller(request);
  if (caller.name !== name) return caller.name;
  throw new Problem('bad_request', `You cannot ${verb} yourself. Another operator can, or npm run -s operator.`);
}

const toKnownAccount = ({ name, issuer, operator, verifiedAt, suspendedReason, createdAt }: Account) => ({
  name,
  issuer,
  operator,
  verified: verifiedAt !== null,
  suspendedReason,
  createdAt,
});
