/** `/ssh-hosts`: the SSH hosts that the caller's account added. */
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { pageSshHosts } from '../../db/accounts/ssh-hosts.ts';
import { mapPage } from '../../db/postgres/cursors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { jsonBody, noContent, page, pageQuery, timestamp } from '../../service/http/schemas.ts';
import { abortWhenClosed } from '../sessions/closed-requests.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import {
  addSshHost,
  changeSshHost,
  describeSshHost,
  removeSshHost,
  requireSshHost,
  sshHostFields,
  sshHostId,
  sshLoginFields,
  testSshHost,
} from './ssh-hosts.ts';

const hostParams = z.object({ hostId: z.string() });

const ownHostResource = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    address: z.string(),
    port: z.int(),
    user: z.string(),
    hostKeys: z.array(z.string()).describe('The pinned keys. Empty: Bulkhead sends the host nothing.'),
    login: z.enum(['key', 'password']).describe('The login method. The key and the password are never shown.'),
    testedAt: timestamp.nullable().describe('Time of the last test since the last change. Null: not tested since.'),
    testFault: z.string().nullable().describe('Why the last test failed. Null: it passed, or there was no test.'),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'OwnSshHost', description: 'An SSH host that the account added.' });

const { name, address, port, user, hostKeys } = sshHostFields;
const shapes = {
  list: {
    summary: 'The SSH hosts that the account added, oldest first',
    details: 'Those that the operator gave the account are in `GET /sessions/{sessionId}/ssh-hosts` too.',
    querystring: pageQuery,
    response: { 200: page(ownHostResource) },
  },
  add: {
    summary: 'Adds an SSH host',
    details: 'The account’s agents, and plugins that were granted `host.ssh`, may then run commands on it.',
    problems: ['id_reused', 'too_many', 'quota_exceeded'],
    body: jsonBody({
      id: sshHostId.describe('The name by which agents and plugins address the host. It cannot be changed.'),
      ...sshHostFields,
      ...sshLoginFields,
    }),
    response: { 201: ownHostResource },
  },
  one: { summary: 'One SSH host', params: hostParams, response: { 200: ownHostResource } },
  change: {
    summary: 'Changes an SSH host',
    details:
      'Running commands continue. If the address, port, user or pinned keys of a host with a password change, send the password again.',
    params: hostParams,
    body: jsonBody({
      name: name.optional(),
      address: address.optional(),
      port: port.removeDefault().optional(),
      user: user.optional(),
      hostKeys: hostKeys.removeDefault().optional(),
      ...sshLoginFields,
    }),
    response: { 200: ownHostResource },
  },
  remove: {
    summary: 'Removes an SSH host and its login',
    details: 'Running commands continue.',
    params: hostParams,
    response: { 204: noContent },
  },
  test: {
    summary: 'Tests an SSH host',
    details:
      'Connects, checks the key of the host, logs in, and runs no command. If the key is not pinned, it sends no login: compare `hostKey` with the key of the host, then pin it.',
    params: hostParams,
    response: {
      200: z
        .strictObject({
          ok: z.boolean(),
          hostKey: z.string().nullable().describe('The key that the host presented. Null: the host was not reached.'),
          fault: z.string().nullable(),
        })
        .meta({ id: 'SshTest', description: 'The result of a test of an SSH host.' }),
    },
  },
} satisfies Record<string, FastifySchema>;

export function sshHostRoutes(services: SessionServices): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Services');
    app.get('/ssh-hosts', { schema: shapes.list }, async (request) =>
      mapPage(await pageSshHosts(services.pool, requireCaller(request).id, request.query), describeSshHost),
    );

    app.post('/ssh-hosts', { config: { wholeAccount: true }, schema: shapes.add }, async (request, reply) => {
      const added = await addSshHost(services, requireCaller(request), request.body);
      return answerCreated(request, reply, encodeURIComponent(added.id)).send(added);
    });

    app.get('/ssh-hosts/:hostId', { schema: shapes.one }, async (request) =>
      describeSshHost(await requireSshHost(services, requireCaller(request), request.params.hostId)),
    );

    app.patch('/ssh-hosts/:hostId', { config: { wholeAccount: true }, schema: shapes.change }, (request) =>
      changeSshHost(services, requireCaller(request), request.params.hostId, request.body),
    );

    app.delete(
      '/ssh-hosts/:hostId',
      { config: { wholeAccount: true }, schema: shapes.remove },
      async (request, reply) => {
        await removeSshHost(services, requireCaller(request), request.params.hostId);
        return reply.code(204).send();
      },
    );

    app.post(
      '/ssh-hosts/:hostId/test',
      { config: { wholeAccount: true }, schema: shapes.test },
      async (request, reply) => {
        const { hostId } = request.params;
        const { hostKey, fault } = await testSshHost(services, requireCaller(request), hostId, abortWhenClosed(reply));
        return { ok: fault === null, hostKey, fault };
      },
    );
  };
}
