/** The text of docs/session-api.md, made from the OpenAPI document of the session API. */
import { pino } from 'pino';
import { PROBLEM_TYPE } from '../../sdk/contract/problem-body.ts';
import type { JsonSchema, OpenApiDocument, Operation, Parameter, Response } from '../../service/http/openapi.ts';
import { buildSessionApi } from '../../supervisor/sessions/session-api.ts';
import type { SessionServices } from '../../supervisor/sessions/session-services.ts';
import { escapeCell } from '../site/table-cell.ts';

const REFERENCE = '#/components/schemas/';
const TYPES_MAX = 8;
/** Longer patterns say less than their description. */
const PATTERN_MAX_CHARS = 60;

/** The only services that building the routes uses, because no route is called. */
const services = {
  inspections: { allowed: false, close: () => undefined },
  streams: { close: () => undefined },
  metrics: { sessionAnswered: () => undefined },
} as object as SessionServices;

async function readDocument(): Promise<OpenApiDocument> {
  const app = await buildSessionApi(services, pino({ level: 'silent' }), { url: 'http://localhost:4010' });
  const { body } = await app.inject('/openapi.json');
  await app.close();
  return JSON.parse(body);
}

/** A schema as a short type. Objects without a name of their own are listed field by field below their property. */
function printType(schema: JsonSchema): string {
  if (schema.$ref !== undefined) return schema.$ref.slice(REFERENCE.length);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' or ');
  const options = schema.anyOf ?? schema.oneOf;
  if (options)
    return [...new Set(options.map((option) => printType(option as JsonSchema)))].slice(0, TYPES_MAX).join(' or ');
  if (Array.isArray(schema.type)) return schema.type.map((type) => printType({ ...schema, type })).join(' or ');
  if (schema.type === 'array') return `list of ${printType((schema.items ?? {}) as JsonSchema)}`;
  if (schema.properties) return `{${Object.entries(schema.properties).map(printMember).join(', ')}}`;
  if (schema.format === 'date-time') return schema.format;
  return typeof schema.type === 'string' ? schema.type : 'any JSON';
}

/** A list inside an answer is named with what it holds, and a constant with its value. */
function printMember([name, property]: [string, unknown]): string {
  const schema = property as JsonSchema;
  return schema.type === 'array' || schema.const !== undefined ? `${name}: ${printType(schema)}` : name;
}

function describeField(schema: JsonSchema, isRequired: boolean): string {
  const facts = [
    schema.description,
    // Some defaults stand for another value, which the description names.
    schema.default === undefined || schema.description?.includes('Default: ')
      ? undefined
      : `Default: \`${JSON.stringify(schema.default)}\`.`,
    describeRange(schema),
    schema.maxLength === undefined ? undefined : `At most ${schema.maxLength} characters.`,
    schema.pattern === undefined || schema.pattern.length > PATTERN_MAX_CHARS
      ? undefined
      : `Pattern: \`${schema.pattern}\`.`,
    schema.maxItems === undefined ? undefined : `At most ${schema.maxItems} items.`,
    isRequired ? undefined : 'Optional.',
  ];
  return facts.filter((fact) => fact !== undefined).join(' ');
}

/** Undefined where a schema has no limit of its own: those of every integer are the integers that a double represents. */
function describeRange({ minimum, maximum = Number.MAX_SAFE_INTEGER }: JsonSchema): string | undefined {
  if (minimum === undefined || maximum === Number.MAX_SAFE_INTEGER) return undefined;
  return `From ${minimum} to ${maximum}.`;
}

/** The schema whose fields are listed below a property: itself, the elements of a list, or the only object among its alternatives. */
function findInner(schema: JsonSchema): { readonly inner: JsonSchema; readonly isList: boolean } {
  if (schema.type === 'array') return { inner: (schema.items ?? {}) as JsonSchema, isList: true };
  const options = (schema.anyOf ?? schema.oneOf ?? []).map((option) => findInner(option as JsonSchema));
  const [found, ...others] = options.filter(({ inner }) => inner.properties !== undefined);
  return found !== undefined && others.length === 0 ? found : { inner: schema, isList: false };
}

/** One row per field, those of nested objects with their path: `messages[].role`. */
function listFields(schema: JsonSchema, path = ''): string[] {
  const required: readonly string[] = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const field = property as JsonSchema;
    const { inner, isList } = findInner(field);
    const place = `${path}${name}${isList ? '[]' : ''}`;
    const cells = [
      `\`${place}\``,
      escapeCell(printType(field)),
      escapeCell(describeField(field, required.includes(name))),
    ];
    const below = inner.properties === undefined ? [] : listFields(inner, `${place}.`);
    return [`| ${cells.join(' | ')} |`, ...below];
  });
}

const table = (title: string, rows: readonly string[]): string[] =>
  rows.length === 0 ? [] : [`| ${title} | Type | |`, '|---|---|---|', ...rows, ''];

const printParameter = ({ name, schema, description, required }: Parameter): string =>
  `| \`${name}\` | ${escapeCell(printType(schema))} | ${escapeCell(describeField({ ...schema, ...(description ? { description } : {}) }, required))} |`;

function printAnswers({ responses }: Operation): string[] {
  const successes = Object.entries(responses).filter(([status]) => Number(status) < 400);
  const refusals = Object.entries(responses).filter(([status]) => Number(status) >= 400);
  const lines = successes.map(([status, { content }]) => {
    const bodies = Object.entries(content ?? {}).map(([type, { schema }]) =>
      type === 'application/json' ? printType(schema) : `\`${type}\``,
    );
    return `**${status}** ${bodies.join(' or ') || 'without a body'}.`;
  });
  const isProblem = ([, { content = {} }]: [string, Response]): boolean => PROBLEM_TYPE in content;
  const codes = refusals
    .filter(isProblem)
    .flatMap(([, { description }]) => description.split('; ').map((one) => `\`${one.split(':', 1)[0]}\``));
  const others = refusals.filter((refusal) => !isProblem(refusal)).map(([status]) => `**${status}**`);
  const otherForm = others.length === 0 ? '' : ` In the form of the protocol: ${others.join(', ')}.`;
  return [`${lines.join(' ')} Problems: ${codes.join(', ')}.${otherForm}`, ''];
}

function printOperation(method: string, path: string, operation: Operation): string[] {
  const listParameters = (place: Parameter['in']): string[] =>
    (operation.parameters ?? []).filter((parameter) => parameter.in === place).map(printParameter);
  const body = operation.requestBody?.content['application/json']?.schema;
  return [
    `### ${method.toUpperCase()} ${path}`,
    '',
    `${operation.summary}. ${operation.description ?? ''}`.trim(),
    '',
    ...table('Header', listParameters('header')),
    ...table('Query', listParameters('query')),
    ...(body?.$ref === undefined ? table('Body', body ? listFields(body) : []) : [`**Body** ${printType(body)}.`, '']),
    ...printAnswers(operation),
  ];
}

/** The text of the page. */
export async function sessionApiPage(): Promise<string> {
  const { paths, tags, components } = await readDocument();
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const named = Object.entries(components.schemas).filter(([, schema]) => schema.properties !== undefined);
  return [
    '# Session API',
    '',
    'Generated from the routes of `supervisor/` by `npm run -s generate`. The same as OpenAPI 3.1 is at `/openapi.json` of the session API,',
    'and as a page at `/docs`.',
    '',
    'An agent runtime calls it with the bearer token of the account: `http://localhost:4010` unless the operator chose another address.',
    'Bodies are JSON, uncompressed. A `date-time` is a text such as `2026-01-05T09:00:00Z`. Unknown fields and query parameters are refused',
    'with the nearest name. A later release may add fields to responses: ignore those that you do not know.',
    'Lists answer `{items, nextCursor}`; a cursor continues only the list that answered it. Every error is',
    '`application/problem+json` with a `code`; [Quotas](quotas.md) shows one.',
    '',
    ...tags.flatMap(({ name, description }) => [
      `## ${name}`,
      '',
      description,
      '',
      ...operations
        .filter(({ operation }) => operation.tags.includes(name))
        .flatMap(({ method, path, operation }) => printOperation(method, path, operation)),
    ]),
    '## Schemas',
    '',
    ...named.flatMap(([name, schema]) => [
      `### ${name}`,
      '',
      ...(schema.description === undefined ? [] : [schema.description, '']),
      ...table('Field', listFields(schema)),
    ]),
  ].join('\n');
}
