/** Errors between supervisor and child: how a call to the child fails, and how a host call of the child is refused. */
import { ResponseError } from 'vscode-jsonrpc';

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

/** A refused host call, in words for the plugin. */
export class HostCallRefusal extends Error {
  override readonly name = 'HostCallRefusal';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** JSON-RPC wants a number; the code that plugins read travels in `data`. */
const REFUSED = 1;
const INTERNAL = new HostCallRefusal('internal', 'The host failed to answer this call.');

/** What the child is told about a failed host call: the text of our own errors never crosses. */
export function refusalToResponse(error: unknown): ResponseError<{ readonly code: string }> {
  const { code, message } = error instanceof HostCallRefusal ? error : INTERNAL;
  return new ResponseError(REFUSED, message, { code });
}
