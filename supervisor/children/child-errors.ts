/** Errors of calls to a child and of host calls from a child. */
import { ResponseError } from 'vscode-jsonrpc';

/**
 * `timeout`: the deadline has passed. `busy`: too many calls wait, or the deadline has passed before the call was sent. `dead`:
 * the child ended before it responded. `load`: the bundle threw. `aborted`: the caller aborted. `broken`: the child's response
 * is malformed. `too_large`: the call exceeds the largest frame.
 */
export type ChildErrorKind = 'timeout' | 'busy' | 'dead' | 'load' | 'aborted' | 'broken' | 'too_large';

/** The message may be shown to the plugin's author: it contains no internal error text. */
export class ChildError extends Error {
  override readonly name = 'ChildError';
  readonly kind: ChildErrorKind;
  /** The plugin's stack, to be mapped to the author's files. Empty: the child sent no stack. */
  readonly pluginStack: string;
  /** Set for `dead` when the child was killed from outside, or the supervisor stopped it through no fault of the plugin. */
  readonly interrupted: boolean;
  /** Set for `timeout` when another handler of the child did not return, so that the called one did not start. */
  readonly blockedBy: string | undefined;
  /** Set for `aborted` and `dead` when the call was not sent to the child, so its handler did not run. */
  readonly isUnsent: boolean;

  constructor(
    kind: ChildErrorKind,
    message: string,
    details: { pluginStack?: string; interrupted?: boolean; blockedBy?: string; isUnsent?: boolean } = {},
  ) {
    super(message);
    this.kind = kind;
    this.blockedBy = details.blockedBy;
    this.pluginStack = details.pluginStack ?? '';
    this.interrupted = details.interrupted === true;
    this.isUnsent = details.isUnsent === true;
  }
}

/** Creates the error of a call that exceeded its budget. @param detail appended to the message */
export const createTimeoutError = (what: string, budgetMs: number, detail: string): ChildError =>
  new ChildError('timeout', `${what} took longer than its ${Math.round(budgetMs)} ms${detail}`);

/** Creates the error of a call whose child ended before the call was sent. @param reason of the end */
export const createUnsentError = (reason: string): ChildError => new ChildError('dead', reason, { isUnsent: true });

/** The violation of a child whose message met a fault of the supervisor. Only the child that sent it ends. */
export const UNEXPECTED = 'a message that the supervisor failed to handle';

/** Shows the operator a fault of the supervisor. Returns the reason that the plugin's author reads. */
export function reportUnexpected(error: unknown): string {
  console.error(error);
  return UNEXPECTED;
}

/** A refused host call. Its message is sent to the plugin. */
export class HostCallRefusal extends Error {
  override readonly name = 'HostCallRefusal';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** JSON-RPC requires a number. The code that plugins read is in `data`. */
const REFUSED = 1;
const INTERNAL = new HostCallRefusal('internal', 'The host failed to answer this call.');

/** Converts a failed host call to a response. The text of internal errors stays in the supervisor. */
export function refusalToResponse(error: unknown): ResponseError<{ readonly code: string }> {
  const { code, message } = error instanceof HostCallRefusal ? error : INTERNAL;
  return new ResponseError(REFUSED, message, { code });
}
