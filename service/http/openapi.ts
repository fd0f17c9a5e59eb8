/** Creates an application's OpenAPI 3.1 document from its routes, with @fastify/swagger. */

import fastify, { type FastifyInstance, type FastifySchema, type RouteOptions } from 'fastify';
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { type ProblemCode, problems } from '../../sdk/contract/errors.ts';
import { PROBLEM_TYPE } from '../../sdk/contract/problem-body.ts';
import { LazyLoad } from '../timing/lazy-load.ts';
import { STATUS_CODES } from './node-http.ts';
import { problemResource } from './problem-resource.ts';
import { listProblems, type RouteFacts } from './route-schema.ts';

export type JsonSchema = z.core.JSONSchema.JSONSchema;
interface Media {
  readonly schema: JsonSchema;
}
export interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, object>>;
  readonly content?: Readonly<Record<string, Media>>;
}
export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly schema: JsonSchema;
  readonly description?: string;
}
export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { required: boolean; readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, Response>>;
  readonly security?: readonly [];
}
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly externalDocs: { readonly description: string; readonly url: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

interface DocumentOptions {
  readonly title: string;
  readonly description: string;
  /** Paths of the documented routes start with it. */
  readonly prefix: string;
  /** Address of the prefix as clients reach it. */
  readonly url: string;
  /** Address of the guides. */
  readonly guidesUrl: string;
  /** Tags of the document, in order. */
  readonly groups: Readonly<Record<string, string>>;
}

const JSON_TYPE = 'application/json';
const REFERENCE = '#/components/schemas/';
/** Descriptions of successful responses. */
const STATUS_WORDS: Readonly<Record<string, string>> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted',
  204: 'Done',
};

const zodToJsonConfig = {
  // `json` is checked by code and has no JSON Schema.
  unrepresentable: 'any' as const,
  override: ({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodType; jsonSchema: z.core.JSONSchema.BaseSchema }) => {
    if (zodSchema instanceof z.ZodUndefined) jsonSchema.type = 'null';
    // Zod itself drops unknown fields, but `refuseUnknownFields` refuses them. `openResponses` then opens responses.
    if (zodSchema instanceof z.ZodObject && zodSchema.def.catchall === undefined)
      jsonSchema.additionalProperties = false;
    delete jsonSchema.tsType;
  },
};
const convertSchemas = createJsonSchemaTransform({ zodToJsonConfig });
const addComponents = createJsonSchemaTransformObject({ zodToJsonConfig });

export type DocumentBuilder = () => Promise<OpenApiDocument>;

/**
 * Documents the routes that are added to an application from now on.
 *
 * @returns builds the document when it is first called; call it after the application is ready
 */
export function documentRoutes(app: FastifyInstance, options: DocumentOptions): DocumentBuilder {
  const routes: RouteOptions[] = [];
  app.addHook('onRoute', (route) => {
    if (route.method !== 'HEAD') routes.push(route);
  });
  const document = new LazyLoad(() => buildDocument(routes, options));
  return () => document.get();
}

/**
 * Adds the routes to an application that serves nothing, because @fastify/swagger reads those of its own application. Done at the
 * first request for the document, which saves 60 ms of processor time at each start.
 */
async function buildDocument(routes: readonly RouteOptions[], options: DocumentOptions): Promise<OpenApiDocument> {
  const { default: swagger } = await import('@fastify/swagger');
  const optionalBodies = new Set<string>();
  const app = fastify({ exposeHeadRoutes: false });
  app.setValidatorCompiler(() => () => true).setSerializerCompiler(() => String);
  await app.register(swagger, {
    convertConstToEnum: false,
    stripBasePath: false,
    openapi: {
      openapi: '3.1.0',
      info: { title: options.title, version: '1', description: options.description },
      externalDocs: { description: 'Guides, examples and the plugin reference', url: options.guidesUrl },
      servers: [{ url: options.url }],
      security: [{ bearer: [] }],
      tags: Object.entries(options.groups).map(([name, description]) => ({ name, description })),
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
    },
    transform: ({ schema = {}, url, route, ...rest }) => {
      if (!url.startsWith(`${options.prefix}/`) || schema.hide) return { schema: { hide: true }, url };
      const path = url.slice(options.prefix.length);
      const facts = { method: String(route.method), url: path, schema };
      const operationId = nameOperation(facts);
      if (schema.body instanceof z.ZodType && schema.body.safeParse(undefined).success) optionalBodies.add(operationId);
      const converted = convertSchemas({
        ...rest,
        url,
        schema: { ...schema, body: schema.multipart ?? schema.body },
      } as never).schema;
      return { url: path, schema: { ...converted, ...describeRoute(facts, converted, options), operationId } };
    },
    transformObject: (made) => {
      const document: OpenApiDocument = addComponents(made as never) as never;
      const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
      for (const operation of operations)
        if (operation.requestBody && optionalBodies.has(operation.operationId)) operation.requestBody.required = false;
      openResponses(operations, document);
      const schemas = reachableSchemas(document.paths, document);
      return { ...document, components: { ...document.components, schemas } } as never;
    },
  });
  for (const { method, url, schema = {} } of routes) app.route({ method, url, schema, handler: () => undefined });
  await app.ready();
  const document: OpenApiDocument = app.swagger() as never;
  await app.close();
  return document;
}

/** Adds to a route's schema for @fastify/swagger: operation id, texts, responses and problems. */
function describeRoute(route: RouteFacts, converted: FastifySchema, options: DocumentOptions): FastifySchema {
  const { summary, group, details, open, multipart } = route.schema;
  if (summary === undefined || group === undefined || !Object.hasOwn(options.groups, group))
    throw new Error(`${route.method} ${route.url} declares no summary, or no group of the document`);
  return {
    tags: [group],
    response: addProblems(describeResponses(converted.response), route),
    ...(details === undefined ? {} : { description: details }),
    ...(open ? { security: [] } : {}),
    ...(multipart ? { consumes: ['multipart/form-data'] } : {}),
  };
}

/** `POST /plugins/:id/versions/zip` is `postPluginsByIdVersionsZip`. */
function nameOperation({ method, url }: RouteFacts): string {
  const words = url.replaceAll(':', 'by-').split(/[/.-]/).filter(Boolean);
  return method.toLowerCase() + words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('');
}

const count = (description: string) => ({ description, type: 'integer', minimum: 0 });
const retryAfter = { 'retry-after': count('Seconds after which to try again.') };
const accountLimits = {
  'ratelimit-limit': count('Requests of this kind per minute.'),
  'ratelimit-remaining': count('Requests left.'),
  'ratelimit-reset': count('Seconds until all requests are available again.'),
};

const location = { location: { description: 'Path of the new resource.', type: 'string' } };

function describeResponses(declared: unknown): Record<string, Response> {
  const responses: Record<string, Response> = {};
  for (const [status, schema] of Object.entries((declared ?? {}) as Record<string, JsonSchema | Response>)) {
    const isSuccess = Number(status) < 400;
    const isComplete = 'content' in schema || ('type' in schema && schema.type === 'null');
    responses[status] = {
      description: STATUS_WORDS[status] ?? STATUS_CODES[status] ?? 'Done',
      ...(isSuccess ? { headers: status === '201' ? { ...accountLimits, ...location } : accountLimits } : {}),
      ...(isComplete ? schema : { content: { [JSON_TYPE]: { schema: schema as JsonSchema } } }),
    };
  }
  return responses;
}

/** Adds one response per status of the route's problems, which names their codes. */
function addProblems(responses: Record<string, Response>, route: RouteFacts): Record<string, Response> {
  for (const [status, codes] of Map.groupBy(listProblems(route), (code) => problems[code].status)) {
    responses[status] = {
      description: codes.map((code) => `${code}: ${problems[code].title}`).join('; '),
      ...(status === 429 || status === 503 ? { headers: retryAfter } : {}),
      content: { ...responses[status]?.content, [PROBLEM_TYPE]: { schema: narrowProblem(codes) } },
    };
  }
  return responses;
}

const narrowProblem = (codes: readonly ProblemCode[]): JsonSchema => ({
  allOf: [
    { $ref: `${REFERENCE}${problemResource.meta()?.id}` },
    { type: 'object', properties: { code: { enum: [...codes] } } },
  ],
});

/** A later release may add fields to responses, and clients generated from the document must accept them. */
function openResponses(operations: readonly Operation[], document: OpenApiDocument): void {
  const responses = operations.map((operation) => operation.responses);
  // Requests refer to other schemas, whose names end with `Input`.
  for (const part of [responses, reachableSchemas(responses, document)]) allowMoreFields(part);
}

function allowMoreFields(part: object): void {
  if ('additionalProperties' in part && part.additionalProperties === false) delete part.additionalProperties;
  for (const inner of Object.values(part)) if (typeof inner === 'object' && inner !== null) allowMoreFields(inner);
}

/** Lists the schemas that a part refers to. The document has those of the whole process, because zod's registry has. */
function reachableSchemas(from: object, { components: { schemas } }: OpenApiDocument): Record<string, JsonSchema> {
  const reached: Record<string, JsonSchema> = {};
  const visit = (part: unknown): void => {
    for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      const schema = schemas[name];
      if (schema === undefined || name in reached) continue;
      reached[name] = schema;
      visit(schema);
    }
  };
  visit(from);
  return reached;
}
