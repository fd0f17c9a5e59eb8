/** Every problem Bulkhead answers with over HTTP, once: its code, status and title (RFC 9457). */
export const problems = {
  bad_request: { status: 400, title: 'The request is malformed' },
  unauthenticated: { status: 401, title: 'Sign in first' },
  not_owner: { status: 403, title: 'This belongs to another account' },
  operators_only: { status: 403, title: 'This is for operators' },
  plugin_blocked: { status: 403, title: 'The operator blocked this plugin' },
  inspector_off: { status: 403, title: 'The inspector is switched off' },
  draft_owner_only: { status: 403, title: 'Drafts are for the plugin’s owner' },
  not_found: { status: 404, title: 'There is no such thing' },
  method_not_allowed: { status: 405, title: 'This address does not take that method' },
  slug_taken: { status: 409, title: 'The slug is in use' },
  version_exists: { status: 409, title: 'The version exists' },
  no_published_version: { status: 409, title: 'Nothing is published yet' },
  last_version: { status: 409, title: 'The last version cannot be yanked' },
  published_version_exists: { status: 409, title: 'A published version remains' },
  already_installed: { status: 409, title: 'The plugin is installed already' },
  not_pending: { status: 409, title: 'That version is not pending' },
  no_draft: { status: 409, title: 'No draft is saved yet' },
  not_a_draft: { status: 409, title: 'This is for your own draft' },
  inspector_open: { status: 409, title: 'The inspector is open already' },
  not_running: { status: 409, title: 'The installation is not running' },
  no_channel: { status: 409, title: 'There is no channel' },
  cancelled: { status: 409, title: 'A plugin vetoed it' },
  gone: { status: 410, title: 'It was here and is gone' },
  too_large: { status: 413, title: 'Too large' },
  unsupported_media_type: { status: 415, title: 'Wrong content type' },
  invalid_pin: { status: 422, title: 'That version cannot be pinned' },
  invalid_package: { status: 422, title: 'The package is not valid' },
  text_files_only: { status: 422, title: 'Only text files are allowed here' },
  invalid_arguments: { status: 422, title: 'The arguments do not fit' },
  rate_limited: { status: 429, title: 'Too many requests' },
  internal: { status: 500, title: 'Something went wrong in Bulkhead' },
  plugin_failed: { status: 502, title: 'The plugin failed' },
  bundler_busy: { status: 503, title: 'The bundler is busy' },
  unavailable: { status: 503, title: 'A part of Bulkhead is away' },
  plugin_timeout: { status: 504, title: 'The plugin took too long' },
} as const satisfies Record<string, { status: number; title: string }>;
export type ProblemCode = keyof typeof problems;

/** Where in a request or a package something is wrong. `line` and `column` count from 1. */
export interface ProblemLocation {
  readonly path?: string | undefined;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  readonly field?: string | undefined;
  readonly message: string;
}

/**
 * A refusal that may be shown to the caller: `detail` says what, where and what to do, and holds no internal text.
 * Thrown anywhere in API and supervisor; turned into `application/problem+json` by their error handlers.
 */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly errors: readonly ProblemLocation[] | undefined;
  /** Seconds after which trying again makes sense; sent as `Retry-After`. */
  readonly retryAfter: number | undefined;

  constructor(
    code: ProblemCode,
    detail: string,
    options: { errors?: readonly ProblemLocation[]; retryAfter?: number } = {},
  ) {
    super(detail);
    this.name = 'Problem';
    this.code = code;
    this.errors = options.errors;
    this.retryAfter = options.retryAfter;
  }

  get status(): number {
    return problems[this.code].status;
  }
}
