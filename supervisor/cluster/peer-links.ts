/**
 * Notices when the link to another supervisor is cut. That closes no connection, so what waits for an answer through it would
 * wait forever. While something waits, the other supervisor is asked whether it is there.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS, type Peer } from '../../db/cluster/supervisors.ts';
import { createOwnerProblem } from './lost-calls.ts';

/** Milliseconds. */
export interface LinkTimes {
  /** Interval of the questions. A request that is answered sooner asks none. */
  readonly askMs: number;
  /** Time limit of a question. */
  readonly answerMs: number;
  /** Until the next question, after one without an answer. */
  readonly repeatMs: number;
  /** A supervisor that has answered nothing for this long is cut off from here. */
  readonly cutOffMs: number;
  /** After its last answer, a supervisor is asked for this long although no request waits for it. */
  readonly forgetMs: number;
}

export const LINK_TIMES: LinkTimes = {
  askMs: 2_000,
  answerMs: 2_000,
  repeatMs: 500,
  // Longer than the lease: the accounts of a machine that vanished have their next owner before.
  cutOffMs: LEASE_MS + 2_000,
  forgetMs: 60_000,
};

/** The owner cannot be asked now, and nothing was sent: another owner may follow soon. */
export class PeerGoneError extends Error {}

interface PeerLinksOptions {
  readonly times: LinkTimes;
  /** Resolves when the supervisor answers. */
  ask(peer: Peer, signal: AbortSignal): Promise<unknown>;
  /** Called once for each time that a supervisor is cut off. */
  onCutOff(peer: Peer): void;
}

interface Link {
  readonly peer: Peer;
  readonly waiting: Set<AbortController>;
  heardAt: number;
  /** silent: it left the last question without an answer. */
  state: 'open' | 'silent' | 'cut off';
}

/** The wait for an answer of another supervisor. */
interface LinkWait {
  /** Aborts when the supervisor is cut off from here. */
  readonly signal: AbortSignal;
  /** Call it when the supervisor has answered. */
  noteAnswer(): void;
  end(): void;
}

export class PeerLinks {
  readonly #options: PeerLinksOptions;
  readonly #links = new Map<number, Link>();
  readonly #closing = new AbortController();

  constructor(options: PeerLinksOptions) {
    this.#options = options;
  }

  close(): void {
    this.#closing.abort();
  }

  /** @throws PeerGoneError while the supervisor does not answer, and Problem `unavailable` once it is cut off */
  wait(peer: Peer): LinkWait {
    const link = this.#links.get(peer.id) ?? this.#open(peer);
    if (link.state === 'cut off')
      throw createOwnerProblem('The supervisor that runs the plugins of this account does not answer this one.');
    if (link.state === 'silent') throw new PeerGoneError('it does not answer');
    const wait = new AbortController();
    link.waiting.add(wait);
    return {
      signal: wait.signal,
      noteAnswer: () => noteAnswer(link),
      end: () => void link.waiting.delete(wait),
    };
  }

  #open(peer: Peer): Link {
    const link: Link = { peer, waiting: new Set(), heardAt: performance.now(), state: 'open' };
    this.#links.set(peer.id, link);
    void this.#watch(link);
    return link;
  }

  async #watch(link: Link): Promise<void> {
    const { times } = this.#options;
    for (;;) {
      const { signal } = this.#closing;
      const delay = link.state === 'open' ? times.askMs : times.repeatMs;
      await sleep(delay, undefined, { ref: false, signal }).catch(() => undefined);
      const isForgotten = link.state === 'open' || performance.now() - link.heardAt > times.forgetMs;
      if (signal.aborted || (link.waiting.size === 0 && isForgotten)) break;
      await this.#ask(link);
    }
    this.#links.delete(link.peer.id);
  }

  async #ask(link: Link): Promise<void> {
    const { times, ask, onCutOff } = this.#options;
    try {
      await ask(link.peer, AbortSignal.timeout(times.answerMs));
      return noteAnswer(link);
    } catch {
      if (link.state === 'open') link.state = 'silent';
    }
    if (performance.now() - link.heardAt < times.cutOffMs) return;
    if (link.state === 'silent') onCutOff(link.peer);
    link.state = 'cut off';
    for (const wait of link.waiting) wait.abort();
  }
}

function noteAnswer(link: Link): void {
  link.heardAt = performance.now();
  link.state = 'open';
}
