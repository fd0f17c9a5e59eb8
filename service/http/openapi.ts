/** The OpenAPI 3.1 document, made of the routes themselves: what is not registered is not in it, and the other way round. */
import type { FastifyInstance, FastifySchema } from 'fastify';
import { z } from 'zod';
import { type ProblemCode, problems } from '../../sdk/contract/errors.ts';
import { PROBLEM_TYPE } from '../../sdk/contract/problem-body.ts';
import { type JsonSchema, openSchemaBook, type SchemaBook } from './json-schemas.ts';
import { problemResource } from './problem-resource.ts';
import { groups, problemsOf, type RouteFacts } from './route-schema.ts';

const JSON_TYPE = 'application/json';
const STATUS_WORDS: Readonly<Record<string, string>> = { 200: 'Done', 201: 'Made', 202: 'Accepted', 204: 'Done' };

interface Media {
  readonly schema: JsonSchema;
}
export interface Answer {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { $ref: string }>>;
  readonly content?: Readonly<Record<string, Media>>;
}
export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly schema: JsonSchema;
}
export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, Answer>>;
  readonly security?: readonly [];
}
export interface OpenApiDocument {
  readonly openapi: '3.1.0';
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: Readonly<Record<string, unknown>> & { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

/**
 * Notes every route that is added to the app under a prefix from now on.
 *
 * @param baseUrl where the prefix is reached
 * @returns makes the document, once all routes are there
 */
export function noteRoutes(app: FastifyInstance, prefix: string, baseUrl: string): () => OpenApiDocument {
  const routes: RouteFacts[] = [];
  app.addHook('onRoute', ({ method, url, schema }) => {
    if (!url.startsWith(`${prefix}/`)) return;
    // HEAD comes with every GET, by itself.
    for (const one of [method].flat()) {
      if (one !== 'HEAD') routes.push({ method: one, url: url.slice(prefix.length), schema: schema ?? {} });
    }
  });
  let made: OpenApiDocument | undefined;
  return () => {
    made ??= describe(routes, baseUrl);
    return made;
  };
}

function describe(routes: readonly RouteFacts[], baseUrl: string): OpenApiDocument {
  const book = openSchemaBook();
  const paths: Record<string, Record<string, Operation>> = {};
  for (const route of routes) {
    const path = route.url.replaceAll(/:(\w+)/g, '{$1}');
    const operations = paths[path] ?? {};
    paths[path] = operations;
    operations[route.method.toLowerCase()] = describeRoute(route, book);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Bulkhead',
      version: '1',
      description: 'Publishing, installing and running plugins for crews of AI agents.',
    },
    servers: [{ url: baseUrl }],
    security: [{ bearer: [] }],
    tags: Object.entries(groups).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: book.components,
      headers,
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
    },
  };
}

const count = (description: string) => ({ description, schema: { type: 'integer', minimum: 0 } });
const headers = {
  RetryAfter: count('Seconds after which trying again makes sense.'),
  RateLimitLimit: count('Requests of this kind a minute.'),
  RateLimitRemaining: count('Requests left in this minute.'),
  RateLimitReset: count('Seconds until the minute ends.'),
};
const headerOf = (name: keyof typeof headers) => ({ $ref: `#/components/headers/${name}` });
const rateHeaders = {
  'ratelimit-limit': headerOf('RateLimitLimit'),
  'ratelimit-remaining': headerOf('RateLimitRemaining'),
  'ratelimit-reset': headerOf('RateLimitReset'),
};

function describeRoute(route: RouteFacts, book: SchemaBook): Operation {
  const { schema, method, url } = route;
  if (schema.summary === undefined || schema.group === undefined)
    throw new Error(`${method} ${url} says not what it does`);
  const parameters = [
    ...describeParameters('path', schema.params, book),
    ...describeParameters('query', schema.querystring, book),
    ...describeParameters('header', schema.headers, book),
  ];
  const requestBody = describeBody(schema, book);
  return {
    operationId: operationId(method, url),
    tags: [schema.group],
    summary: schema.summary,
    ...(schema.details === undefined ? {} : { description: schema.details }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(requestBody ? { requestBody } : {}),
    responses: { ...describeAnswers(schema, book), ...describeProblems(route, book) },
    ...(schema.open ? { security: [] as const } : {}),
  };
}

/** `POST /plugins/:id/versions/zip` is `postPluginsByIdVersionsZip`. */
function operationId(method: string, url: string): string {
  const words = url
    .split(/[/.-]/)
    .map((word) => word.replace(':', 'by-'))
    .join('-')
    .split('-')
    .filter(Boolean);
  return method.toLowerCase() + words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('');
}

function describeParameters(place: Parameter['in'], schema: unknown, book: SchemaBook): Parameter[] {
  if (!(schema instanceof z.ZodType)) return [];
  const { properties = {}, required = [] } = book.convert(schema, 'request');
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: typeof property === 'boolean' ? {} : property,
  }));
}

function describeBody({ body, multipart }: FastifySchema, book: SchemaBook): Operation['requestBody'] | null {
  if (multipart) {
    return { required: true, content: { 'multipart/form-data': { schema: book.convert(multipart, 'request') } } };
  }
  if (!(body instanceof z.ZodType)) return null;
  const required = !body.safeParse(undefined).success;
  return { required, content: { [JSON_TYPE]: { schema: book.convert(body, 'request') } } };
}

function describeAnswers({ response }: FastifySchema, book: SchemaBook): Record<string, Answer> {
  const answers: Record<string, Answer> = {};
  for (const [status, declared] of Object.entries(response ?? {})) {
    const content = describeContent(declared, book);
    const description = STATUS_WORDS[status] ?? 'Done';
    answers[status] = { description, headers: rateHeaders, ...(content ? { content } : {}) };
  }
  return answers;
}

function describeContent(declared: unknown, book: SchemaBook): Record<string, Media> | null {
  if (declared instanceof z.ZodUndefined) return null;
  if (declared instanceof z.ZodType) return { [JSON_TYPE]: { schema: book.convert(declared, 'answer') } };
  const { content } = declared as { content: Record<string, { schema: z.ZodType }> };
  return Object.fromEntries(
    Object.entries(content).map(([type, { schema }]) => [type, { schema: book.convert(schema, 'answer') }]),
  );
}

/** One answer a status, which names its codes. */
function describeProblems(route: RouteFacts, book: SchemaBook): Record<string, Answer> {
  const problem = book.convert(problemResource, 'answer');
  const byStatus = Map.groupBy(problemsOf(route), (code) => problems[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.map((code) => `${code}: ${problems[code].title}`).join('; '),
        ...(status === 429 || status === 503 ? { headers: { 'retry-after': headerOf('RetryAfter') } } : {}),
        content: { [PROBLEM_TYPE]: { schema: narrowed(problem, codes) } },
      },
    ]),
  );
}

const narrowed = (problem: JsonSchema, codes: readonly ProblemCode[]): JsonSchema => ({
  allOf: [problem, { type: 'object', properties: { code: { enum: [...codes] } } }],
});
