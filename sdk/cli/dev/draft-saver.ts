/** Saves the draft and prints the result. */
import type { Context } from '../context.ts';
import { formatFaults } from '../failure.ts';
import type { Draft } from './draft.ts';

/** Pause before a save that found the service away or busy is repeated: a service restarts within seconds. Milliseconds. */
const RETRY_MS = 2_000;

export class DraftSaver {
  /** How long each save took until the draft was live, milliseconds. */
  readonly times: number[] = [];
  readonly #context: Context;
  readonly #draft: Draft;
  /** The printed failure of the last save; null if it succeeded. */
  #lastFailure: string | null = null;
  /** Warnings of the last save that succeeded. */
  #lastWarnings: readonly string[] = [];
  /** The files that the last save left out, as they were printed. */
  #lastSkipped = '';

  constructor(context: Context, draft: Draft) {
    this.#context = context;
    this.#draft = draft;
  }

  /**
   * Saves the draft and prints the duration or the faults. Never rejects.
   *
   * @returns the pause before the same save may succeed, milliseconds; null: after a change only
   */
  async save(): Promise<number | null> {
    const { output, signal } = this.#context;
    const { slug } = this.#draft;
    try {
      const { warnings, savedMs, liveMs } = await this.#draft.save((paths) => this.#printSkipped(paths));
      this.#lastFailure = null;
      this.times.push(liveMs);
      for (const warning of warnings) if (!this.#lastWarnings.includes(warning)) output.printWarning(warning);
      this.#lastWarnings = warnings;
      const [live, saved, started] = [liveMs, savedMs, liveMs - savedMs].map(Math.round);
      const line = `${output.paint.green('live')} ${slug} in ${live} ms (built ${saved}, started ${started})`;
      output.printItem({ saved: slug, liveMs: live, savedMs: saved, warnings }, line);
      return null;
    } catch (error) {
      return signal.aborted ? null : this.#printFailure(error);
    }
  }

  /** Once for the same files. Also where the save fails then: without this line, an import of such a file seems to be misspelt. */
  #printSkipped(paths: readonly string[]): void {
    const { output } = this.#context;
    const skipped = paths.join(', ');
    if (skipped !== '' && skipped !== this.#lastSkipped)
      output.printLine(output.paint.dim(`Skipped binary and large files: ${skipped}`));
    this.#lastSkipped = skipped;
  }

  async #printFailure(error: unknown): Promise<number | null> {
    const { output } = this.#context;
    const { code, message, errors, exit } = await this.#context.explainError(error);
    const isTransient = exit === 'unavailable';
    const lines = formatFaults({ message, errors }, output.paint);
    if (isTransient) lines.push(output.paint.dim(`${this.#draft.slug} is saved as soon as the service accepts it.`));
    const text = lines.join('\n');
    // Each attempt while the service is away fails alike.
    if (!isTransient || text !== this.#lastFailure) output.printItem({ error: { code, message, errors } }, text);
    this.#lastFailure = text;
    return isTransient ? RETRY_MS : null;
  }
}
