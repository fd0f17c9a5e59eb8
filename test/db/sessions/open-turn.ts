/** A turn for tests that give it many rows. */
import type { Pool } from 'pg';
import { findOrCreateAccount } from '../../../db/accounts/accounts.ts';
import { createSession } from '../../../db/sessions/sessions.ts';
import { claimTurn } from '../../../db/sessions/turns.ts';

/** Opens the turn `t` of a new session. */
export async function openTurn(pool: Pool): Promise<{ readonly accountId: string; readonly sessionId: string }> {
  const { id: accountId } = await findOrCreateAccount(pool, 'ann');
  const { id: sessionId } = await createSession(pool, { accountId, agentId: 'a', agentName: 'A', channelId: null });
  const turn = { id: 't', sender: 'user', trigger: 'user', digest: '', systemPrompt: '', model: '' } as const;
  await claimTurn(pool, sessionId, { ...turn, runtime: 'r', leaseSeconds: 100 });
  return { accountId, sessionId };
}
