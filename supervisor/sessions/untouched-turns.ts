/**
 * Turns that this process has opened and that have had no output since. The first output of such a turn is judged without a look
 * into the database before: the statement that writes it finds out where this process is wrong.
 */
import { LRUCache } from 'lru-cache';
import type { TurnKey } from '../../db/sessions/turns.ts';

/** Each takes some hundred bytes. The state of one that was dropped is read from the database. */
const TURNS_MAX = 10_000;

interface UntouchedTurn {
  readonly runtime: string;
  readonly until: number;
}

export class UntouchedTurns {
  readonly #turns = new LRUCache<string, UntouchedTurn>({ max: TURNS_MAX });

  /** @param until the runtime surely has the lease until then, milliseconds of `performance.now()` */
  add(turn: TurnKey, runtime: string, until: number): void {
    this.#turns.set(formatKey(turn), { runtime, until });
  }

  /** Whether the runtime has the turn and this is its first output. From now on it is not. */
  take(turn: TurnKey, runtime: string): boolean {
    const key = formatKey(turn);
    const known = this.#turns.get(key);
    this.#turns.delete(key);
    return known !== undefined && known.runtime === runtime && performance.now() < known.until;
  }
}

const formatKey = ({ sessionId, turnId }: TurnKey): string => `${sessionId} ${turnId}`;
