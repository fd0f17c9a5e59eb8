/** The limits of an account also hold for concurrent requests. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { recordAccountAction } from '../../../db/accounts/account-actions.ts';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { addDelegation } from '../../../db/accounts/delegations.ts';
import { insertSshHost } from '../../../db/accounts/ssh-hosts.ts';
import { openSecretKeys } from '../../../db/files/secrets.ts';
import { inTransaction } from '../../../db/postgres/pool.ts';
import { insertReminder } from '../../../db/sessions/reminders.ts';
import { createSession } from '../../../db/sessions/sessions.ts';
import { insertTodo } from '../../../db/sessions/todos.ts';
import { temporaryFolder, testDatabase } from '../../runner/harness.ts';

const MOST = 1;
const { pool } = await testDatabase(t);
const { id: accountId } = await findOrCreateAccount(pool, 'ann');
const keys = await openSecretKeys(await temporaryFolder(t));
const session = { accountId, agentId: 'ann', agentName: 'Ann', channelId: null };
const { id: sessionId } = await createSession(pool, session);

/** Each adds a thing of that name, and records it or its bytes in the same transaction. */
const adds: Readonly<Record<string, (name: string) => Promise<unknown>>> = {
  'services that act for the account': (name) =>
    addDelegation(
      pool,
      { id: accountId, tokenId: null, tokensAfter: null },
      { name, issuer: 'https://idp.example', subject: name, scopes: ['account:read'] },
      MOST,
    ),
  'SSH hosts': (name) =>
    inTransaction(pool, async (tx) => {
      const fields = { name, address: 'host.example', port: 22, user: 'ann', hostKeys: [], login: { password: 'x' } };
      const made = await insertSshHost(tx, keys, { accountId, hostId: name }, fields, MOST);
      const action = { accountId, action: 'ssh-host.add', subject: name, detail: null, tokenId: null, actor: null };
      if (made) await recordAccountAction(tx, action);
      return made;
    }),
  'to-dos': (todoId) => {
    const fields = { title: todoId, notes: '', dueAt: null, assigneeAgentId: null };
    return insertTodo(pool, { accountId, todoId }, fields, { digest: '', createdBy: 'ann', maxTodos: MOST });
  },
  'reminders that are not over': (reminderId) => {
    const startsAt = '2100-01-01T00:00:00Z';
    const fields = { text: reminderId, to: 'user', zone: 'UTC', repeat: null, startsAt, remaining: null };
    return insertReminder(pool, { sessionId, reminderId }, fields, { digest: '', maxReminders: MOST });
  },
};

for (const [things, add] of Object.entries(adds))
  t.test(things, async (t) => {
    const holder = await pool.connect();
    await holder.query('BEGIN');
    // Nothing is recorded until both have counted what there is, or wait for each other.
    await holder.query('LOCK TABLE account_actions, account_usage_changes IN ACCESS EXCLUSIVE MODE');
    const adding = Promise.all([add('first'), add('second')]);
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    while ((await pool.query(waiting)).rows.length < 2) await sleep(5);
    await holder.query('ROLLBACK');
    holder.release();
    const added = (await adding).filter((thing) => thing !== null);
    t.equal(added.length, MOST);
  });
