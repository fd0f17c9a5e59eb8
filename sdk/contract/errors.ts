/** Every problem that Bulkhead returns over HTTP: code, status and title (RFC 9457). */
export const problems = {
  bad_request: { status: 400, title: 'The request is malformed' },
  unauthenticated: { status: 401, title: 'Authentication is required' },
  not_owner: { status: 403, title: 'The resource belongs to another account' },
  insufficient_scope: { status: 403, title: 'The token’s scopes do not allow this' },
  operators_only: { status: 403, title: 'Only operators may do this' },
  account_suspended: { status: 403, title: 'An operator suspended the account' },
  plugin_blocked: { status: 403, title: 'An operator blocked the plugin' },
  inspector_off: { status: 403, title: 'The inspector is disabled' },
  draft_owner_only: { status: 403, title: 'Only the plugin’s owner may use its draft' },
  not_found: { status: 404, title: 'The resource does not exist' },
  method_not_allowed: { status: 405, title: 'The address does not accept this method' },
  slug_taken: { status: 409, title: 'The slug is already in use' },
  version_exists: { status: 409, title: 'The version already exists' },
  no_published_version: { status: 409, title: 'The plugin has no published version' },
  last_version: { status: 409, title: 'The last version cannot be yanked' },
  published_version_exists: { status: 409, title: 'The plugin has a published version' },
  required_installation: { status: 409, title: 'The account requires the plugin' },
  already_installed: { status: 409, title: 'The plugin is already installed' },
  too_many_installations: { status: 409, title: 'The account has its maximum of installations' },
  too_many: { status: 409, title: 'The account has its maximum of these' },
  not_pending: { status: 409, title: 'The version is not pending' },
  no_draft: { status: 409, title: 'The plugin has no draft' },
  draft_changed: { status: 409, title: 'The draft was saved elsewhere' },
  not_a_draft: { status: 409, title: 'The installation does not run your draft' },
  inspector_open: { status: 409, title: 'The inspector is already open' },
  not_running: { status: 409, title: 'The installation is not running' },
  delivery_state: { status: 409, title: 'The delivery is in another state' },
  no_channel: { status: 409, title: 'No channel is connected' },
  cancelled: { status: 409, title: 'A plugin cancelled the operation' },
  id_reused: { status: 409, title: 'The id belongs to another request' },
  turn_held: { status: 409, title: 'Another runtime holds the turn' },
  not_judged: { status: 409, title: 'The session takes only what hooks judged' },
  turn_ended: { status: 409, title: 'The turn has ended' },
  gone: { status: 410, title: 'The resource was removed' },
  too_large: { status: 413, title: 'The content is too large' },
  quota_exceeded: { status: 413, title: 'The account has used up a quota' },
  unsupported_media_type: { status: 415, title: 'The content type is not supported' },
  invalid_pin: { status: 422, title: 'The version cannot be pinned' },
  invalid_package: { status: 422, title: 'The package is not valid' },
  text_files_only: { status: 422, title: 'Only text files are accepted' },
  invalid_arguments: { status: 422, title: 'The arguments are not valid' },
  rate_limited: { status: 429, title: 'Too many requests' },
  internal: { status: 500, title: 'Internal error' },
  plugin_failed: { status: 502, title: 'The plugin failed' },
  outcome_unknown: { status: 502, title: 'The call may have taken effect' },
  bundler_busy: { status: 503, title: 'The bundler is busy' },
  unavailable: { status: 503, title: 'A part of Bulkhead is unavailable' },
  plugin_timeout: { status: 504, title: 'The plugin took too long' },
} as const satisfies Record<string, { status: number; title: string }>;
export type ProblemCode = keyof typeof problems;

/** The detail of `not_found` where the service has no such address at all. */
export const NO_ROUTE = 'No route has this address.';

/**
 * The sentence for users: which plugin, by its display name, cancelled what they did, and why.
 *
 * @param isFinal whether the plugin cancelled. False: it is required and did not run, and the reason is the host's whole sentence
 */
export const describeCancel = (plugin: string | null, reason: string | null, isFinal = true): string =>
  isFinal || reason === null
    ? `${plugin ?? 'A plugin'} cancelled the operation: ${reason ?? 'no reason given'}`
    : reason;

/** The place of one fault in a request or a package. `line` and `column` start at 1. */
export interface ProblemLocation {
  readonly path?: string | undefined;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  readonly field?: string | undefined;
  readonly message: string;
}

/** Formats a fault as compilers do, so that editors can open it: `index.ts:3:7: message`. */
export function formatLocation({ path, line, column, field, message }: ProblemLocation): string {
  const place = [path, line, column].filter((part) => part !== undefined).join(':');
  return [place, field, message].filter((part) => part !== undefined && part !== '').join(': ');
}

/**
 * An error that is safe to show to the caller: `detail` says what happened and what to do, without internal text. The
 * error handlers of the API and the supervisor turn it into `application/problem+json`.
 */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly errors: readonly ProblemLocation[] | undefined;
  /** Seconds, sent as `Retry-After`. */
  readonly retryAfter: number | undefined;

  constructor(
    code: ProblemCode,
    detail: string,
    options: { errors?: readonly ProblemLocation[]; retryAfter?: number; cause?: unknown } = {},
  ) {
    super(detail, options);
    this.name = 'Problem';
    this.code = code;
    this.errors = options.errors;
    this.retryAfter = options.retryAfter;
  }

  get status(): number {
    return problems[this.code].status;
  }
}
