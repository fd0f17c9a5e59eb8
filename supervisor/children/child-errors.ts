/** What can come of a call besides an answer of the plugin's own. */

/**
 * `timeout`: past its deadline. `busy`: too many calls wait. `dead`: the child ended first, or had ended.
 * `load`: the bundle failed. `aborted`: the caller gave up. `broken`: the child's answer was no answer.
 * `too_large`: the call does not fit on the wire.
 */
export type ChildErrorKind = 'timeout' | 'busy' | 'dead' | 'load' | 'aborted' | 'broken' | 'too_large';

/** Its message may be shown to the plugin's author: it holds the plugin's own text at most. */
export class ChildError extends Error {
  override readonly name = 'ChildError';
  readonly kind: ChildErrorKind;
  /** The plugin's own stack where there is one, for the source map. */
  readonly pluginStack: string;
  /** Milliseconds; set for a timeout. */
  readonly budgetMs: number | undefined;
  readonly elapsedMs: number | undefined;
  /** `dead`, and by neither the child's nor our own doing: it was killed from outside. */
  readonly interrupted: boolean;

  constructor(
    kind: ChildErrorKind,
    message: string,
    details: { pluginStack?: string; budgetMs?: number; elapsedMs?: number; interrupted?: boolean } = {},
  ) {
    super(message);
    this.kind = kind;
    this.pluginStack = details.pluginStack ?? '';
    this.budgetMs = details.budgetMs;
    this.elapsedMs = details.elapsedMs;
    this.interrupted = details.interrupted === true;
  }
}

/** The error of a handler that took longer than its budget, milliseconds. */
export function timeoutOf(what: string, budgetMs: number, elapsedMs: number = budgetMs): ChildError {
  const elapsed = Math.round(elapsedMs);
  const message = `${what} took longer than its ${Math.round(budgetMs)} ms (${elapsed} ms)`;
  return new ChildError('timeout', message, { budgetMs, elapsedMs: elapsed });
}
