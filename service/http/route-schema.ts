/** What a route says of itself beside the shapes that Fastify knows: the rest of what the OpenAPI document shows. */
import type { FastifySchema } from 'fastify';
import type { z } from 'zod';
import { type ProblemCode, problems } from '../../sdk/contract/errors.ts';

/** Chapters of the document, in its order. */
export const groups = {
  Account: 'Who is calling.',
  Authoring: 'Plugins, their versions and drafts, for their owner.',
  Catalog: 'What can be installed.',
  Installations: 'What is installed for the caller’s account, how it is set up and which version it runs.',
  Agents: 'The agents that plugins keep in the caller’s account.',
  Channels: 'Vendor inboxes of an installation, what came through them, and the events it was sent.',
  Logs: 'What plugins wrote through host.log, and what the host has to say about them. Kept for 24 hours.',
  Operators: 'For whoever runs this service.',
  Documentation: 'This document.',
} as const;
export type Group = keyof typeof groups;

declare module 'fastify' {
  interface FastifySchema {
    readonly group?: Group;
    /** What it does, in a few words. */
    summary?: string;
    /** Whatever else a caller should know. */
    readonly details?: string;
    /** Refusals of this route; those that any route of its kind may answer are not repeated. */
    readonly problems?: readonly ProblemCode[];
    /** The parts of a multipart body. */
    readonly multipart?: z.ZodType;
    /** Answered without a token. */
    readonly open?: true;
  }
}

export interface RouteFacts {
  readonly method: string;
  /** In Fastify's spelling. */
  readonly url: string;
  readonly schema: FastifySchema;
}

/** Every problem a route may answer, by status and in order. */
export function problemsOf({ method, schema }: RouteFacts): ProblemCode[] {
  const codes = new Set<ProblemCode>(schema.problems ?? []);
  for (const code of ['internal', 'rate_limited'] as const) codes.add(code);
  if (!schema.open) for (const code of ['unauthenticated', 'unavailable'] as const) codes.add(code);
  // A body that a route has no use for is still read, and refused when it cannot be.
  if (method !== 'GET')
    for (const code of ['bad_request', 'too_large', 'unsupported_media_type'] as const) codes.add(code);
  if (schema.querystring) codes.add('bad_request');
  if (schema.params) codes.add('not_found');
  return [...codes].sort((a, b) => problems[a].status - problems[b].status || a.localeCompare(b));
}
