/** The tools that the runtime of a session performs itself. */
import type { z } from 'zod';
import type { jsonSchema } from '../../sdk/contract/payloads.ts';
import { throwQuotaProblem } from '../accounts/usage.ts';
import { notifySessionChanged } from '../postgres/notifications.ts';
import { changeRows, findValue, type Queryable } from '../postgres/rows.ts';

export interface RuntimeTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: z.infer<typeof jsonSchema>;
}

/** Lists the tools in the order in which the runtime sent them. */
export const listRuntimeTools = async (db: Queryable, sessionId: string): Promise<readonly RuntimeTool[]> =>
  (await findValue(db, 'SELECT tools FROM session_tools WHERE session_id = $1', [sessionId])) ?? [];

/** Replaces the tools of a session. @returns whether it had others before @throws Problem `quota_exceeded` */
export async function setRuntimeTools(
  db: Queryable,
  sessionId: string,
  tools: readonly RuntimeTool[],
): Promise<boolean> {
  const written = changeRows(
    db,
    `WITH s AS (UPDATE sessions SET has_tools = $3 WHERE id = $1 RETURNING id, account_id)
     INSERT INTO session_tools (session_id, account_id, tools) SELECT id, account_id, $2 FROM s
     ON CONFLICT (session_id) DO UPDATE SET tools = excluded.tools
       WHERE session_tools.tools::text <> excluded.tools::text`,
    [sessionId, JSON.stringify(tools), tools.length > 0],
  );
  if ((await written.catch(throwQuotaProblem)) === 0) return false;
  await notifySessionChanged(db, sessionId);
  return true;
}
