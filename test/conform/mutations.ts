/** Rules of Bulkhead, each with the change that switches it off and the row of the executable specification that must notice. */

export interface Mutation {
  /** A sentence of `conform/chapters/`, or a part of one. */
  readonly row: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const LIFECYCLE = 'api/plugins/plugin-lifecycle.ts';
const ACCESS = 'api/plugins/plugin-access.ts';
const CHOICE = 'api/installations/version-choice.ts';

export const mutations: readonly Mutation[] = [
  {
    row: 'Unknown body fields are refused with the nearest name.',
    file: 'service/http/unknown-fields.ts',
    from: 'if (fields.length > 0) throw',
    to: 'if (fields.length > 1e9) throw',
  },
  {
    row: 'Unknown query parameters are refused with the nearest name.',
    file: 'service/http/unknown-fields.ts',
    from: 'if (parameters.length > 0) throw',
    to: 'if (parameters.length > 1e9) throw',
  },
  {
    row: '201 carries Location.',
    file: 'service/http/created.ts',
    from: "reply.code(201).header('location',",
    to: "reply.code(201).header('x-location',",
  },
  {
    row: 'A plugin can be read, changed, listed or deleted through the authoring endpoints by its owner only.',
    file: ACCESS,
    from: 'if (plugin.ownerId === caller.id || ',
    to: 'if (plugin.ownerId !== null || ',
  },
  {
    row: 'GET /marketplace: no private plugins of others.',
    file: ACCESS,
    from: 'if (isPublic || isTheirs) return plugin;',
    to: 'if (isPublic || isTheirs || true) return plugin;',
  },
  {
    row: 'GET /marketplace: the owner’s delisted plugin stays in the owner’s own list.',
    file: 'db/catalog/catalog.ts',
    from: "p.visibility <> 'listed' AND p.deleted_at",
    to: "p.visibility = 'private' AND p.deleted_at",
  },
  {
    row: 'Listing without a published version is rejected.',
    file: LIFECYCLE,
    from: "throw new Problem('no_published_version', 'Publish a version first; then the plugin can be listed.');",
    to: '',
  },
  {
    row: 'Yanking the last version is rejected.',
    file: LIFECYCLE,
    from: "if (versions.filter(({ status }) => status === 'published').length === 1) {",
    to: 'if (versions.length === 0) {',
  },
  {
    row: 'Deleting a plugin that still has a published version is rejected.',
    file: LIFECYCLE,
    from: "throw new Problem('published_version_exists', detail);\n    }\n    //",
    to: '}\n    //',
  },
  {
    row: 'Draft installs are for the owner’s own account only.',
    file: CHOICE,
    from: 'if (plugin.ownerId !== caller.id) {',
    to: 'if (plugin.ownerId === null) {',
  },
  {
    row: 'Pinned with a yanked pinnedVersionId: 422 invalid_pin.',
    file: CHOICE,
    from: "if (version.status === 'yanked') throw",
    to: "if (version.semVer === 'never') throw",
  },
  {
    row: 'An update that asks for more access is applied only after accept-update with its versionId.',
    file: 'db/installations/consent-rule.ts',
    from: 'return isCovered(installation, version.capabilities) && isComplete',
    to: 'return isComplete',
  },
  {
    row: 'accept-update names the exact version, so a later publish cannot ride on an old consent.',
    file: 'api/installations/updates.ts',
    from: 'installation.pendingVersionId === versionId ? await findVersion(tx, versionId) : null',
    to: 'await findVersion(tx, installation.pendingVersionId ?? versionId)',
  },
  {
    row: 'GET /plugin-logs: levels is repeatable and filters by level.',
    file: 'db/records/logs.ts',
    from: '($2::text[] IS NULL OR level = ANY ($2))',
    to: '($2::text[] IS NULL OR true)',
  },
  {
    row: 'GET /plugin-logs: sessionId restricts to one session.',
    file: 'db/records/logs.ts',
    from: '($3::text IS NULL OR session_id = $3)',
    to: '($3::text IS NULL OR true)',
  },
  {
    row: 'Zip: refuse a symlink.',
    file: 'api/package/zip-directory.ts',
    from: 'if (type !== 0 && type !== REGULAR && type !== DIRECTORY) return',
    to: 'if (type < 0) return',
  },
  {
    row: 'Zip: refuse an entry whose CRC differs.',
    file: 'api/package/zip-reader.ts',
    from: 'if (sum !== entry.crc32) throw',
    to: 'if (sum < 0) throw',
  },
  {
    row: 'middleware.systemPrompt cannot cancel.',
    file: 'supervisor/calls/chain.ts',
    from: 'if (!row.cancellable) return failLink',
    to: 'if (hook.length === 0) return failLink',
  },
  {
    row: 'Required installations fail closed: a failure cancels',
    file: 'supervisor/calls/chain.ts',
    from: "if (!link.required && row.onFailure !== 'cancel')",
    to: "if (row.onFailure !== 'cancel')",
  },
  {
    row: 'middleware.sshCommand: on error: cancel.',
    file: 'sdk/contract/protocol.ts',
    from: "const failClosed = { ...cancellable, onFailure: 'cancel' } as const;",
    to: 'const failClosed = cancellable;',
  },
  {
    row: 'A blank result falls back to the built-in summarizer and posts a transcript notice.',
    file: 'supervisor/sessions/summary-faults.ts',
    from: "summary.trim() === ''",
    to: "summary === ''",
  },
  {
    row: 'Tool arguments are checked first: 422.',
    file: 'sandbox-child/program.ts',
    from: 'if (refusal) return refusal;',
    to: '',
  },
  {
    row: 'Tool result: 256 KiB at most.',
    file: 'supervisor/sessions/tool-results.ts',
    from: 'if (Buffer.byteLength(JSON.stringify(checked.data)) > maxBytes)',
    to: 'if (maxBytes < 0)',
  },
  {
    row: 'A tool handler may return any JSON value: one text part.',
    file: 'supervisor/sessions/tool-results.ts',
    from: 'hasContent(answer) ?',
    to: "typeof answer === 'object' ?",
  },
  {
    row: 'Another account’s session: 404 not_found.',
    file: 'supervisor/sessions/session-cache.ts',
    from: 'return known?.accountId === accountId ? known : null;',
    to: 'return known ?? null;',
  },
  {
    row: 'POST /sessions: channelId must be the caller’s own.',
    file: 'supervisor/sessions/lifecycle.ts',
    from: 'if (fields.channelId !== null && ',
    to: "if (fields.channelId === 'never' && ",
  },
  {
    row: 'A transcript keeps its order across 9/10, 99/100 and 999/1000, with pages.',
    file: 'db/postgres/rows.ts',
    from: '{table}.$',
    to: '{table}::text, $',
  },
  {
    row: '410 for a replaced address.',
    file: 'db/channels/channels.ts',
    from: "[row.routingId, row.retired ? 'retired' : toAddress(row)]",
    to: '[row.routingId, toAddress(row)]',
  },
  {
    row: 'A BigInt or cycle in log data costs that field, not the whole payload.',
    file: 'sandbox-child/log-lines.ts',
    from: 'return toJsonData(replaceUnprintable(data, [], { valuesLeft: VALUES_MAX }));',
    to: "return { data: '[a value that cannot be shown]', truncated: false };",
  },
  {
    row: 'ctx.signal survives a spread.',
    file: 'sandbox-child/invocations.ts',
    from: 'completed.signal = running.signal;',
    to: "Object.defineProperty(completed, 'signal', { value: running.signal });",
  },
  {
    row: 'host.http.fetch: declared hosts only.',
    file: 'supervisor/host/http/reach.ts',
    from: 'if (!granted.some(',
    to: 'if (host === address && granted.some(',
  },
  {
    row: 'A secret with `use` is a handle',
    file: 'supervisor/host/secrets.ts',
    from: 'secret.uses === null ? secret.value',
    to: 'secret.uses !== null ? secret.value',
  },
  {
    row: 'The session API has POST /sessions/{sessionId}/mail.',
    file: 'supervisor/host-tools/mail-routes.ts',
    from: "'/sessions/:sessionId/mail', { schema: send }",
    to: "'/sessions/:sessionId/letters', { schema: send }",
  },
  {
    row: 'Log message: 8 KiB.',
    file: 'supervisor/records/log-sink.ts',
    from: 'isCut), this.#caps.messageBytes)',
    to: 'isCut), 1e9)',
  },
  {
    row: 'host.workspace stays inside the account’s workspace, never outside.',
    file: 'supervisor/host/workspace/anchored-paths.ts',
    from: "name === '.' || name === '..'",
    to: "name === '.'",
  },
  {
    row: 'fetch only where host.http was granted.',
    file: 'sandbox-child/program.ts',
    from: '...(this.#hasFetch ? this.#web.fetch : {})',
    to: '...this.#web.fetch',
  },
  {
    row: 'a paused one takes no part.',
    file: 'supervisor/calls/chain-runner.ts',
    from: 'if (!mayRun(plugin) && !plugin.required) {',
    to: 'if (plugin.blockedReason !== null && !plugin.required) {',
  },
  {
    row: 'No token, or a bad one: 401 unauthenticated.',
    file: 'service/http/errors.ts',
    from: "return new Problem('unauthenticated', 'The token is invalid",
    to: "return new Problem('not_found', 'The token is invalid",
  },
  {
    row: 'A number that would become another one',
    file: 'sdk/contract/untrusted-json.ts',
    from: 'if (inexact !== null) throw createInexactError(inexact);',
    to: '',
  },
];
