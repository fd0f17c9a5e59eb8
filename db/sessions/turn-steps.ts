/** The calls and outputs of a turn, in pages. */
import type { Pool } from 'pg';
import { encodeCursor, type Page } from '../postgres/cursors.ts';
import type { Positioned } from '../postgres/rows.ts';
import { type CallRow, pageCalls } from './tool-calls.ts';
import { type OutputRow, pageOutputs } from './turn-outputs.ts';
import type { TurnKey } from './turns.ts';

/** Maximum calls, and maximum outputs, of one page. Most turns have fewer. */
const PAGE_ROWS = 1_000;

interface StepsPage {
  readonly calls: readonly CallRow[];
  readonly outputs: readonly OutputRow[];
  readonly nextCursor: string | null;
}

/** Both oldest first. The cursor has a position in each list. */
export async function pageSteps(pool: Pool, turn: TurnKey, cursor = ''): Promise<StepsPage> {
  const [callsCursor = '', outputsCursor = ''] = cursor.split('.');
  const [calls, outputs] = await Promise.all([
    pageCalls(pool, turn, { limit: PAGE_ROWS, cursor: callsCursor }),
    pageOutputs(pool, turn, { limit: PAGE_ROWS, cursor: outputsCursor }),
  ]);
  const isLast = calls.nextCursor === null && outputs.nextCursor === null;
  const nextCursor = isLast ? null : `${findEnd(calls, callsCursor)}.${findEnd(outputs, outputsCursor)}`;
  return { calls: calls.items, outputs: outputs.items, nextCursor };
}

/** The cursor after a page, whether or not another one follows. */
function findEnd({ items }: Page<Positioned<object>>, start: string): string {
  const last = items.at(-1);
  return last ? encodeCursor(last.position) : start;
}
