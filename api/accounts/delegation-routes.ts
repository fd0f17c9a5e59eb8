/** The routes of services that act for the caller's account, and of what was done in its name. */
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { pageAccountActions } from '../../db/accounts/account-actions.ts';
import { addDelegation, type Delegation, pageDelegations, removeDelegation } from '../../db/accounts/delegations.ts';
import { mapPage } from '../../db/postgres/cursors.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { label } from '../../sdk/contract/manifest.ts';
import { removeTrailingSlashes } from '../../sdk/session/web-addresses.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { idParams, jsonBody, noContent, page, pageQuery, timestamp } from '../../service/http/schemas.ts';
import { scopeNames, scopes } from '../../service/identity/scopes.ts';
import { TOKEN_NAME_MAX_CHARS, userName } from '../../service/identity/tokens.ts';
import type { Services } from '../services.ts';

const DELEGATIONS_MAX = 100;
const ISSUER_MAX_CHARS = 500;

const scope = z.enum(scopeNames);
const delegationResource = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    issuer: z.string(),
    isIssuerConfigured: z
      .boolean()
      .describe(
        'Whether the operator configured the issuer. False: the service gets no token before the operator does.',
      ),
    subject: z.string(),
    scopes: z.array(z.string()),
    createdAt: timestamp,
    lastUsedAt: timestamp.nullable().describe('When the service last got a token; null: never.'),
  })
  .meta({ id: 'Delegation', description: 'A service that may act for the account.' });

const actionResource = z
  .strictObject({
    id: z.string(),
    at: timestamp,
    action: z.string(),
    subject: z.string().describe('The object of the action.'),
    detail: z.string().nullable(),
    tokenId: z.string().nullable().describe('The record of the request’s token; null: it had none.'),
    actor: z.string().nullable().describe('The service that acted for the account; null: the account itself.'),
  })
  .meta({
    id: 'AccountAction',
    description:
      'A change of an SSH host or of a service that may act for the account, or a token that such a service got.',
  });

const shapes = {
  list: {
    summary: 'The services that may act for the caller’s account, newest first',
    querystring: pageQuery,
    response: { 200: page(delegationResource) },
  },
  add: {
    summary: 'Lets a service act for the caller’s account',
    details: `The service exchanges a token of its issuer for one of the account at \`POST /oauth/token\` (RFC 8693). The issuer must be one that the
operator configured: see \`isIssuerConfigured\` in the response. Scopes: ${scopeNames.map((name) => `\`${name}\`: ${scopes[name]}`).join(' ')}`,
    problems: ['id_reused', 'too_many'],
    body: jsonBody({
      name: label(TOKEN_NAME_MAX_CHARS),
      issuer: z
        .url({ protocol: /^https?$/, error: 'must be an http or https address' })
        .max(ISSUER_MAX_CHARS)
        .transform(removeTrailingSlashes)
        .describe('Address of the OpenID Connect issuer of the service’s tokens.'),
      subject: userName.describe('`sub` of the service’s tokens.'),
      scopes: z.array(scope).min(1).max(scopeNames.length).describe('The most that the service may do.'),
    }),
    response: { 201: delegationResource },
  },
  remove: {
    summary: 'Ends what a service may do for the caller’s account',
    details: 'Its tokens are refused at once, and its streams end.',
    params: idParams,
    response: { 204: noContent },
  },
  actions: {
    summary: 'Changes of the caller’s SSH hosts and services, and the tokens that services got, newest first',
    details:
      'Of the last 90 days. Services are those of `GET /me/delegations`. Other requests of the account are not recorded.',
    querystring: pageQuery,
    response: { 200: page(actionResource) },
  },
} satisfies Record<string, FastifySchema>;

/** @param issuers those that the operator configured, without a slash at the end */
export function delegationRoutes({ pool }: Pick<Services, 'pool'>, issuers: readonly string[]): FastifyPluginAsyncZod {
  const describeDelegation = (delegation: Delegation) => ({
    ...delegation,
    isIssuerConfigured: issuers.includes(delegation.issuer),
  });
  return async (app) => {
    groupRoutes(app, 'Account');

    app.get('/me/delegations', { schema: shapes.list }, async (request) =>
      mapPage(await pageDelegations(pool, requireCaller(request).id, request.query), describeDelegation),
    );

    app.post('/me/delegations', { schema: shapes.add }, async (request, reply) => {
      const caller = requireCaller(request);
      const fields = { ...request.body, scopes: [...new Set(request.body.scopes)] };
      const added = await addDelegation(pool, caller, fields, DELEGATIONS_MAX);
      if (added) return answerCreated(request, reply, added.id).send(describeDelegation(added));
      const known = await pageDelegations(pool, caller.id, { limit: DELEGATIONS_MAX });
      if (known.items.some(({ issuer, subject }) => issuer === fields.issuer && subject === fields.subject))
        throw new Problem('id_reused', 'This service may act for you already. Remove it first to change its scopes.');
      throw new Problem('too_many', `The account has ${DELEGATIONS_MAX} services that act for it. Remove one.`);
    });

    app.delete('/me/delegations/:id', { schema: shapes.remove }, async (request, reply) => {
      const { id: accountId, tokenId } = requireCaller(request);
      if (!(await removeDelegation(pool, { accountId, tokenId }, request.params.id)))
        throw new Problem('not_found', 'No service with this id may act for you.');
      return reply.code(204).send();
    });

    app.get('/me/actions', { schema: shapes.actions }, (request) =>
      pageAccountActions(pool, requireCaller(request).id, request.query),
    );
  };
}
