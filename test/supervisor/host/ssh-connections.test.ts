/** Shares of the SSH connections of a supervisor. Its own file, because it needs no SSH server. */
import { once } from 'node:events';
import t from 'tap';
import type { SshHost } from '../../../supervisor/host/ssh/account-hosts.ts';
import { SshConnections } from '../../../supervisor/host/ssh/connections.ts';

/** A host that does not answer before the call ends. */
const host: SshHost = {
  id: 'h',
  name: 'slow',
  port: 22,
  user: 'u',
  hostKeys: ['SHA256:x'],
  revision: '',
  managedBy: 'account',
  prepare: async (signal) => {
    await once(signal, 'abort');
    throw new Error('the call ended');
  },
};

t.test('no account takes all connections', async (t) => {
  const connections = new SshConnections({ total: 6, perInstallation: 4, idleMs: 60_000 });
  const calls = new AbortController();
  const endOf = (work: Promise<unknown>) =>
    work.then(
      () => 'connected',
      (error: Error) => error.message,
    );
  const acquire = (accountId: string, connectionOwner: string) =>
    endOf(connections.acquire({ accountId, connectionOwner }, host, calls.signal));
  const ends = ['a1', 'a2', 'a3', 'a4', 'a5'].map((installation) => acquire('ann', installation));
  ends.push(endOf(connections.test({ accountId: 'ann', connectionOwner: 'tests' }, host, calls.signal)));
  ends.push(acquire('ben', 'b1'));
  calls.abort();
  const begun = 'the call ended';
  const refused = 'this account runs 4 SSH commands; try again when one has ended';
  t.same(await Promise.all(ends), [begun, begun, begun, begun, refused, refused, begun]);
});
