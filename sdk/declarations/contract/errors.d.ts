/** Every problem that Bulkhead returns over HTTP: code, status and title (RFC 9457). */
export declare const problems: {
    readonly bad_request: {
        readonly status: 400;
        readonly title: 'The request is malformed';
    };
    readonly unauthenticated: {
        readonly status: 401;
        readonly title: 'Authentication is required';
    };
    readonly not_owner: {
        readonly status: 403;
        readonly title: 'The resource belongs to another account';
    };
    readonly insufficient_scope: {
        readonly status: 403;
        readonly title: 'The token’s scopes do not allow this';
    };
    readonly operators_only: {
        readonly status: 403;
        readonly title: 'Only operators may do this';
    };
    readonly account_suspended: {
        readonly status: 403;
        readonly title: 'An operator suspended the account';
    };
    readonly plugin_blocked: {
        readonly status: 403;
        readonly title: 'An operator blocked the plugin';
    };
    readonly inspector_off: {
        readonly status: 403;
        readonly title: 'The inspector is disabled';
    };
    readonly draft_owner_only: {
        readonly status: 403;
        readonly title: 'Only the plugin’s owner may use its draft';
    };
    readonly not_found: {
        readonly status: 404;
        readonly title: 'The resource does not exist';
    };
    readonly method_not_allowed: {
        readonly status: 405;
        readonly title: 'The address does not accept this method';
    };
    readonly slug_taken: {
        readonly status: 409;
        readonly title: 'The slug is already in use';
    };
    readonly version_exists: {
        readonly status: 409;
        readonly title: 'The version already exists';
    };
    readonly no_published_version: {
        readonly status: 409;
        readonly title: 'The plugin has no published version';
    };
    readonly last_version: {
        readonly status: 409;
        readonly title: 'The last version cannot be yanked';
    };
    readonly published_version_exists: {
        readonly status: 409;
        readonly title: 'The plugin has a published version';
    };
    readonly required_installation: {
        readonly status: 409;
        readonly title: 'The account requires the plugin';
    };
    readonly already_installed: {
        readonly status: 409;
        readonly title: 'The plugin is already installed';
    };
    readonly too_many_installations: {
        readonly status: 409;
        readonly title: 'The account has its maximum of installations';
    };
    readonly too_many: {
        readonly status: 409;
        readonly title: 'The account has its maximum of these';
    };
    readonly not_pending: {
        readonly status: 409;
        readonly title: 'The version is not pending';
    };
    readonly no_draft: {
        readonly status: 409;
        readonly title: 'The plugin has no draft';
    };
    readonly draft_changed: {
        readonly status: 409;
        readonly title: 'The draft was saved elsewhere';
    };
    readonly not_a_draft: {
        readonly status: 409;
        readonly title: 'The installation does not run your draft';
    };
    readonly inspector_open: {
        readonly status: 409;
        readonly title: 'The inspector is already open';
    };
    readonly not_running: {
        readonly status: 409;
        readonly title: 'The installation is not running';
    };
    readonly delivery_state: {
        readonly status: 409;
        readonly title: 'The delivery is in another state';
    };
    readonly no_channel: {
        readonly status: 409;
        readonly title: 'No channel is connected';
    };
    readonly cancelled: {
        readonly status: 409;
        readonly title: 'A plugin cancelled the operation';
    };
    readonly id_reused: {
        readonly status: 409;
        readonly title: 'The id belongs to another request';
    };
    readonly turn_held: {
        readonly status: 409;
        readonly title: 'Another runtime holds the turn';
    };
    readonly not_judged: {
        readonly status: 409;
        readonly title: 'The session takes only what hooks judged';
    };
    readonly turn_ended: {
        readonly status: 409;
        readonly title: 'The turn has ended';
    };
    readonly gone: {
        readonly status: 410;
        readonly title: 'The resource was removed';
    };
    readonly too_large: {
        readonly status: 413;
        readonly title: 'The content is too large';
    };
    readonly quota_exceeded: {
        readonly status: 413;
        readonly title: 'The account has used up a quota';
    };
    readonly unsupported_media_type: {
        readonly status: 415;
        readonly title: 'The content type is not supported';
    };
    readonly invalid_pin: {
        readonly status: 422;
        readonly title: 'The version cannot be pinned';
    };
    readonly invalid_package: {
        readonly status: 422;
        readonly title: 'The package is not valid';
    };
    readonly text_files_only: {
        readonly status: 422;
        readonly title: 'Only text files are accepted';
    };
    readonly invalid_arguments: {
        readonly status: 422;
        readonly title: 'The arguments are not valid';
    };
    readonly rate_limited: {
        readonly status: 429;
        readonly title: 'Too many requests';
    };
    readonly internal: {
        readonly status: 500;
        readonly title: 'Internal error';
    };
    readonly plugin_failed: {
        readonly status: 502;
        readonly title: 'The plugin failed';
    };
    readonly outcome_unknown: {
        readonly status: 502;
        readonly title: 'The call may have taken effect';
    };
    readonly bundler_busy: {
        readonly status: 503;
        readonly title: 'The bundler is busy';
    };
    readonly unavailable: {
        readonly status: 503;
        readonly title: 'A part of Bulkhead is unavailable';
    };
    readonly plugin_timeout: {
        readonly status: 504;
        readonly title: 'The plugin took too long';
    };
};
export type ProblemCode = keyof typeof problems;
/** The detail of `not_found` where the service has no such address at all. */
export declare const NO_ROUTE = "No route has this address.";
/**
 * The sentence for users: which plugin, by its display name, cancelled what they did, and why.
 *
 * @param isFinal whether the plugin cancelled. False: it is required and did not run, and the reason is the host's whole sentence
 */
export declare const describeCancel: (plugin: string | null, reason: string | null, isFinal?: boolean) => string;
/** The place of one fault in a request or a package. `line` and `column` start at 1. */
export interface ProblemLocation {
    readonly path?: string | undefined;
    readonly line?: number | undefined;
    readonly column?: number | undefined;
    readonly field?: string | undefined;
    readonly message: string;
}
/** Formats a fault as compilers do, so that editors can open it: `index.ts:3:7: message`. */
export declare function formatLocation({ path, line, column, field, message }: ProblemLocation): string;
/**
 * An error that is safe to show to the caller: `detail` says what happened and what to do, without internal text. The
 * error handlers of the API and the supervisor turn it into `application/problem+json`.
 */
export declare class Problem extends Error {
    readonly code: ProblemCode;
    readonly errors: readonly ProblemLocation[] | undefined;
    /** Seconds, sent as `Retry-After`. */
    readonly retryAfter: number | undefined;
    constructor(code: ProblemCode, detail: string, options?: {
        errors?: readonly ProblemLocation[];
        retryAfter?: number;
        cause?: unknown;
    });
    get status(): number;
}
