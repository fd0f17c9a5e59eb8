/**
 * Maps the stack traces of log lines before they are written: the accounts in turn, and each line within a time limit. So an
 * account with many or large source maps delays only its own lines.
 */
import { mayTakeBytes } from '../../db/jobs/account-share.ts';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { FairQueue } from '../../service/timing/fair-queue.ts';
import { type StartTimer, within } from '../../service/timing/within.ts';
import { type CodedLine, hasFrames, MAPPING_MS, type Stacks } from './stacks.ts';

/** Lines that wait for their mapping. Each account may take its share; its further lines are written without mapping. Bytes. */
const WAITING_BYTES = 2 * MIB;
/** Installations that wait for their turn, and turns whose lines waited too long. */
const WAITING_TURNS = 1_000;

export interface MappedLine extends CodedLine {
  readonly accountId: string;
}
interface LineMapperOptions {
  readonly stacks: Pick<Stacks, 'map'>;
  sizeOf(line: MappedLine): number;
  /** Called once with each line: those of an installation in their order. */
  onLine(line: MappedLine): void;
  /** Default: Node's timers. */
  readonly startTimer?: StartTimer | undefined;
}

interface WaitingLines {
  readonly accountId: string;
  readonly installationId: string;
  readonly lines: MappedLine[];
  /** The lines were passed on without mapping. */
  isGivenUp: boolean;
  /** Resolves when all lines are passed on. */
  ended: Promise<void>;
}

export class LineMapper {
  readonly #options: LineMapperOptions;
  readonly #turns = new FairQueue({ places: 1, waitingPlaces: WAITING_TURNS });
  /** By installation. */
  readonly #waiting = new Map<string, WaitingLines>();
  readonly #bytes = new AmountsByKey();
  #isClosed = false;

  constructor(options: LineMapperOptions) {
    this.#options = options;
  }

  get length(): number {
    return this.#waiting.values().reduce((sum, { lines }) => sum + lines.length, 0);
  }

  /** Adds a line. One without frames waits only for earlier lines of its installation. */
  add(line: MappedLine): void {
    const { installationId } = line.line;
    const waiting = this.#waiting.get(installationId);
    if (!this.#isClosed && (waiting || hasFrames(line)) && this.#hasRoom(line, waiting)) {
      this.#bytes.add(line.accountId, this.#options.sizeOf(line));
      if (waiting) waiting.lines.push(line);
      else this.#start(line);
      return;
    }
    if (waiting) this.#giveUp(waiting);
    this.#options.onLine(line);
  }

  /** Resolves when the waiting lines are passed on. */
  async flush(): Promise<void> {
    await Promise.all(this.#waiting.values().map(({ ended }) => ended));
  }

  /** Passes on the waiting lines and all later ones without mapping. */
  close(): void {
    this.#isClosed = true;
    for (const waiting of [...this.#waiting.values()]) this.#giveUp(waiting);
  }

  #hasRoom(line: MappedLine, waiting: WaitingLines | undefined): boolean {
    const { accountId } = line;
    const free = WAITING_BYTES - this.#bytes.total;
    if (!mayTakeBytes(this.#bytes.get(accountId), free, this.#options.sizeOf(line))) return false;
    return waiting !== undefined || this.#turns.hasRoom(accountId);
  }

  #start(line: MappedLine): void {
    const { accountId } = line;
    const { installationId } = line.line;
    const waiting = { accountId, installationId, lines: [line], isGivenUp: false, ended: Promise.resolve() };
    this.#waiting.set(installationId, waiting);
    waiting.ended = this.#mapAll(waiting);
  }

  async #mapAll(waiting: WaitingLines): Promise<void> {
    while (waiting.lines.some(hasFrames)) {
      const mapped = await within(this.#takeTurn(waiting), MAPPING_MS, this.#options.startTimer);
      if (waiting.isGivenUp) return;
      if (!mapped) return this.#giveUp(waiting);
      this.#passOn(waiting, mapped);
    }
    this.#giveUp(waiting);
  }

  /** Maps the lines that wait when it is their turn. Undefined: it took too long. */
  #takeTurn(waiting: WaitingLines): Promise<MappedLine[] | undefined> {
    return this.#turns.run(waiting.accountId, async () => {
      if (waiting.isGivenUp) return undefined;
      const lines = [...waiting.lines];
      // Limited as well: the next account must not wait for a thread or a store that hangs.
      const mapped = await within(this.#options.stacks.map(lines), MAPPING_MS, this.#options.startTimer);
      return mapped && lines.map((line, index) => ({ ...line, line: mapped[index] ?? line.line }));
    });
  }

  /** Passes on all waiting lines as they are. */
  #giveUp(waiting: WaitingLines): void {
    waiting.isGivenUp = true;
    this.#waiting.delete(waiting.installationId);
    this.#passOn(waiting, [...waiting.lines]);
  }

  /** @param mapped the first of the waiting lines */
  #passOn(waiting: WaitingLines, mapped: readonly MappedLine[]): void {
    for (const line of waiting.lines.splice(0, mapped.length)) {
      this.#bytes.subtract(line.accountId, this.#options.sizeOf(line));
    }
    for (const line of mapped) this.#options.onLine(line);
  }
}
