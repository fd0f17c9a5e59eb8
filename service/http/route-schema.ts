/** Adds to Fastify's route schema the fields that the OpenAPI document needs. */
import type { FastifyInstance, FastifySchema } from 'fastify';
import type { z } from 'zod';
import { type ProblemCode, problems } from '../../sdk/contract/errors.ts';

declare module 'fastify' {
  interface FastifySchema {
    /** The tag in the document. Set by `groupRoutes`. */
    readonly group?: string;
    /** A longer description. */
    readonly details?: string;
    /** Problems of this route beside those that `listProblems` adds. */
    readonly problems?: readonly ProblemCode[];
    /** The parts of a multipart body, for the document only. */
    readonly multipart?: z.ZodType;
    /** Needs no token. */
    readonly open?: true;
  }
}

/** Puts the routes that a scope adds from now on under one tag of the document. */
export function groupRoutes(scope: FastifyInstance, group: string): void {
  scope.addHook('onRoute', (route) => {
    route.schema = { group, ...route.schema };
  });
}

export interface RouteFacts {
  readonly method: string;
  /** Relative to the document's prefix, with Fastify's `:name` parameters. */
  readonly url: string;
  readonly schema: FastifySchema;
}

/** Lists every problem that a route may answer, ordered by status. */
export function listProblems({ method, schema }: RouteFacts): ProblemCode[] {
  const codes = new Set<ProblemCode>(schema.problems ?? []);
  for (const code of ['internal', 'rate_limited'] as const) codes.add(code);
  // `refuseUnknownFields` refuses query parameters on every route that needs a token.
  if (!schema.open)
    for (const code of [
      'bad_request',
      'unauthenticated',
      'insufficient_scope',
      'account_suspended',
      'unavailable',
    ] as const)
      codes.add(code);
  // A body is read even if the route does not use it.
  if (method !== 'GET')
    for (const code of ['bad_request', 'too_large', 'unsupported_media_type'] as const) codes.add(code);
  if (schema.querystring || schema.headers) codes.add('bad_request');
  if (schema.params) codes.add('not_found');
  return [...codes].sort((a, b) => problems[a].status - problems[b].status || a.localeCompare(b));
}
