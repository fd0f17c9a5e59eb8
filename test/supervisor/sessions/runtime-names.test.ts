/** The names under which runtimes hold turns, without the header `bulkhead-runtime` or beyond ASCII. */
import t from 'tap';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { addDelegation } from '../../../db/accounts/delegations.ts';
import { recordToken } from '../../../db/accounts/issued-tokens.ts';
import type { Identity } from '../../../service/identity/tokens.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const HOUR_MS = 3_600_000;
const ISSUER = 'https://issuer.example';
const SUBJECT = 'ann';

t.test('turns are held by name, or without one by the service or client, with each of its tokens', async (t) => {
  const identities = new Map<string, Pick<Identity, 'tokenId' | 'client'>>();
  const expiresAt = new Date(Date.now() + HOUR_MS);
  const { app, pool } = await startSupervisorFixture(t, {
    verifier: {
      issuer: ISSUER,
      async verify(token) {
        const { tokenId = null, client = null } = identities.get(token) ?? {};
        const common = { issuer: ISSUER, subject: SUBJECT, keyId: null, issuedAt: Date.now() };
        return { ...common, tokenId, client, expiresAt: expiresAt.getTime() };
      },
    },
  });
  const account = await findOrCreateAccount(pool, SUBJECT, ISSUER);
  const addService = async (subject: string) => {
    const service = { name: subject, issuer: ISSUER, subject, scopes: ['sessions:read', 'sessions:write'] };
    const delegation = await addDelegation(pool, { ...account, tokenId: null }, service, 10);
    return String(delegation?.id);
  };
  const record = async (name: string, delegationId?: string) => {
    const owner = { accountId: account.id, name, expiresAt };
    identities.set(name, {
      tokenId: await recordToken(pool, { ...owner, ...(delegationId ? { delegationId } : {}) }),
      client: null,
    });
  };
  const desk = await addService('desk');
  await record('desk-1', desk);
  await record('desk-2', desk);
  await record('shop-1', await addService('shop'));
  await record('laptop');
  await record('server');
  identities.set('worker-1', { tokenId: null, client: 'worker' });
  identities.set('worker-2', { tokenId: null, client: 'worker' });
  identities.set('other-1', { tokenId: null, client: 'other' });

  const post = async (token: string, url: string, payload: object, named: object = {}) => {
    const headers = { authorization: `Bearer ${token}`, ...named };
    const reply = await app.inject({ method: 'POST', url, headers, payload });
    return { status: reply.statusCode, body: reply.json() };
  };
  /** Who holds a turn after both requested it: the second gets 409 if another holds it. */
  const openTwice = async (first: string, second: string) => {
    const session = (await post('laptop', '/sessions', { agentId: 'a' })).body.id;
    const open = (token: string) =>
      post(token, `/sessions/${session}/turns`, { id: 'm1', text: 'hello', trigger: 'user' });
    const opened = await open(first);
    return { holder: opened.body.lease?.runtime, status: (await open(second)).status };
  };
  const service = `service desk of ${ISSUER}`;
  t.same(await openTwice('desk-1', 'desk-2'), { holder: service, status: 201 }, 'the same service');
  t.same(await openTwice('desk-1', 'shop-1'), { holder: service, status: 409 }, 'another service');
  t.same(await openTwice('worker-1', 'worker-2'), { holder: 'client worker', status: 201 }, 'the same client');
  t.same(await openTwice('worker-1', 'other-1'), { holder: 'client worker', status: 409 }, 'another client');
  t.match(await openTwice('laptop', 'server'), { holder: /^token /, status: 409 }, 'another token of a user');

  // A server reads each byte of a header as a character.
  for (const encoding of ['utf8', 'latin1'] as const) {
    const named = { 'bulkhead-runtime': Buffer.from('Küche', encoding).toString('latin1') };
    const session = (await post('laptop', '/sessions', { agentId: 'a' })).body.id;
    const turn = { id: 'm1', text: 'hello', trigger: 'user' };
    const { body } = await post('laptop', `/sessions/${session}/turns`, turn, named);
    t.equal(body.lease.runtime, 'Küche', `a name in ${encoding}`);
  }
});
