/** Routes of an installation's log lines: pages and a stream. */
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Listener } from '../../db/postgres/listener.ts';
import { pageLogs, subscribeToLogs } from '../../db/records/logs.ts';
import { logLevels } from '../../sdk/contract/protocol.ts';
import { endWithToken, requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { eventStreamHeaders, type RowStreamOptions, RowStreams } from '../../service/http/row-streams.ts';
import { anyJson, FILTERED_PAGES, page, pageQuery, storedId, timestamp } from '../../service/http/schemas.ts';
import { findReadableInstallation, requireInstallation } from '../installations/installation-lookup.ts';
import type { Services } from '../services.ts';
import { isLogId, LogTail } from './log-tail.ts';

const levels = z.enum(logLevels, `must be one of ${logLevels.join(', ')}`);
const logFilter = {
  installationId: storedId,
  sessionId: storedId.optional(),
  levels: z.preprocess((given) => (typeof given === 'string' ? [given] : given), z.array(levels).max(10)).optional(),
};

const logQuery = pageQuery.extend(logFilter);
const logStreamQuery = z.object(logFilter);
/** Other headers pass unchecked. */
const logStreamHeaders = z.looseObject({
  'last-event-id': z.string().refine(isLogId, 'must be the id of a log line').optional(),
});

const logLineResource = z
  .strictObject({
    id: z.string(),
    at: timestamp,
    level: z.enum(logLevels),
    message: z.string(),
    data: anyJson.nullable(),
    installationId: z.string(),
    sessionId: z.string().nullable(),
    source: z.string().describe('The handler that wrote it, or system: the host about the plugin.'),
    invocationId: z.string().nullable(),
    versionId: z.string().nullable(),
    semVer: z.string().nullable(),
    truncated: z.boolean(),
  })
  .meta({ id: 'LogLine', description: 'A line a plugin wrote through host.log, or the host about it.' });

const STREAM_DETAILS =
  'Server-sent events of the type line, oldest first, each with a log line as JSON. Without Last-Event-ID it starts with the next new line; with it, after the line of that id. A comment is sent every 15 seconds. The stream ends after 15 minutes: reconnect with Last-Event-ID.';

const shapes = {
  list: {
    summary: 'The log lines of an installation, newest first',
    details: FILTERED_PAGES,
    problems: ['not_found'],
    querystring: logQuery,
    response: { 200: page(logLineResource) },
  },
  stream: {
    summary: 'Log lines as they are written',
    details: STREAM_DETAILS,
    problems: ['not_found'],
    querystring: logStreamQuery,
    headers: logStreamHeaders,
    response: { 200: { content: { 'text/event-stream': { schema: z.string() } } } },
  },
} satisfies Record<string, FastifySchema>;

/** Creates the streams of this process. The key of a stream is its installation. */
export function openLogStreams(listener: Listener, options: RowStreamOptions = {}): RowStreams {
  const follow = (wake: (key: string | null) => void) => subscribeToLogs(listener, wake, () => wake(null));
  return new RowStreams({ follow, things: 'logs' }, options);
}

export function logRoutes(services: Services): FastifyPluginAsyncZod {
  const { pool, listener } = services;
  return async (app) => {
    groupRoutes(app, 'Logs');
    const streams = openLogStreams(listener);
    app.addHook('preClose', async () => streams.close());

    app.get('/plugin-logs', { schema: shapes.list }, async (request) => {
      await requireInstallation(services, requireCaller(request), request.query.installationId, 'read');
      return pageLogs(pool, request.query);
    });

    app.get(
      '/plugin-logs/stream',
      {
        // A HEAD request would keep the stream open without a reader.
        exposeHeadRoute: false,
        schema: shapes.stream,
      },
      async (request, reply) => {
        const caller = requireCaller(request);
        const { installationId } = request.query;
        await requireInstallation(services, caller, installationId, 'read');
        const stream = await streams.open({
          accountId: caller.id,
          key: installationId,
          response: reply.raw,
          openTail: () => LogTail.open(pool, request.query, request.headers['last-event-id'] ?? null),
          isThere: async () => (await findReadableInstallation(services, caller, installationId)) !== null,
        });
        endWithToken(request, reply, () => stream.end());
        return reply.headers(eventStreamHeaders).send(stream as never);
      },
    );
  };
}
