/** Checks answers against an OpenAPI document: route, status, problem code, content type and body must be declared. */
import { randomUUID } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { FastifyInstance, InjectOptions } from 'fastify';
import type { JsonSchema, OpenApiDocument, Operation } from '../../service/http/openapi.ts';
import { RUN_FOLDER_VARIABLE } from '../runner/child-program.ts';

interface Declared {
  readonly method: string;
  readonly path: string;
  readonly pattern: RegExp;
  readonly operation: Operation;
}
interface SeenAnswer {
  readonly method: string;
  readonly url: string;
  readonly status: number;
  readonly contentType: string;
  readonly body: unknown;
}
export interface AnswerCheck {
  /** The operation an address belongs to, or none. */
  find(method: string, url: string): Declared | undefined;
  /** The fault of a response. Null if it is as declared, or its address is not in the document. */
  faultOf(answer: SeenAnswer): string | null;
}

/**
 * An application's own document. The first test file of a run that needs it asks the application, which takes a fifth of a
 * second to make it; the others read what that one wrote.
 */
export async function loadDocument(app: FastifyInstance, url: string): Promise<OpenApiDocument> {
  const folder = process.env[RUN_FOLDER_VARIABLE];
  const file = folder === undefined ? null : join(folder, `document${url.replaceAll('/', '-')}`);
  const written = file === null ? null : await readFile(file, 'utf8').catch(() => null);
  if (written !== null) return JSON.parse(written);
  const { body } = await app.inject(url);
  if (file !== null) {
    // Another file may read or write it at the same time.
    const whole = `${file}.${randomUUID()}`;
    await writeFile(whole, body);
    await rename(whole, file);
  }
  return JSON.parse(body);
}

/** The document leaves responses open for the fields of later releases. In a test, a field that it does not name is a fault. */
function closeObjects<T extends object>(part: T, isPartial = false): T {
  const schema: { type?: unknown; properties?: unknown; additionalProperties?: unknown } = part;
  // A part of `allOf` describes only some of the fields.
  if (schema.type === 'object' && schema.properties !== undefined && !isPartial) schema.additionalProperties ??= false;
  for (const [name, inner] of Object.entries(part))
    if (typeof inner === 'object' && inner !== null)
      closeObjects(inner, name === 'allOf' || (isPartial && Array.isArray(part)));
  return part;
}

/** Compiles the schemas of a document. Adds to Ajv only those that are used: the whole document would take 50 ms. */
function openCompiler(ajv: Ajv2020, { components }: OpenApiDocument): (schema: JsonSchema) => ValidateFunction {
  const prefix = 'document:';
  const added = new Set<string>();
  const prepare = (schema: JsonSchema | undefined): object => {
    const text = JSON.stringify(schema).replaceAll('"#/components/schemas/', `"${prefix}`);
    for (const [, name = ''] of text.matchAll(/"document:([^"]+)"/g)) {
      if (added.has(name)) continue;
      added.add(name);
      ajv.addSchema(prepare(components.schemas[name]), `${prefix}${name}`);
    }
    return closeObjects(JSON.parse(text));
  };
  return (schema) => ajv.compile(prepare(schema));
}

export function checkAnswers(document: OpenApiDocument): AnswerCheck {
  const ajv = new Ajv2020({
    strict: false,
    validateFormats: false,
    // openapi.test.ts validates the whole document.
    validateSchema: false,
    // Inlined and optimized code would take five times as long to compile, and checks too few answers to earn that.
    inlineRefs: false,
    code: { optimize: false },
  });
  const compile = openCompiler(ajv, document);
  const validators = new Map<JsonSchema, ValidateFunction>();
  const declared = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Declared => {
      const pattern = new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
      return { method: method.toUpperCase(), path, pattern, operation };
    }),
  );
  const find = (method: string, url: string) => {
    const path = (url.split('?', 1)[0] ?? '').replace(/^\/api/, '');
    // A fixed address comes before one with a parameter, as in the router.
    const found = declared.filter((one) => one.method === method && one.pattern.test(path));
    return found.sort((a, b) => a.path.split('{').length - b.path.split('{').length)[0];
  };
  return {
    find,
    faultOf({ method, url, status, contentType, body }) {
      const route = find(method, url);
      if (!route) return null;
      const name = `${method} ${route.path} answered ${status}`;
      const answer = route.operation.responses[String(status)];
      if (!answer) return `${name}, which is not declared: ${JSON.stringify(body)}`;
      if (!answer.content) return body === '' ? null : `${name} with a body`;
      const type = [contentType.split(';', 1)[0] ?? '', '*/*'].find((one) => answer.content?.[one]);
      if (type === undefined) return `${name} as ${contentType}`;
      const { schema } = answer.content[type] as { schema: JsonSchema };
      const validate = validators.get(schema) ?? compile(schema);
      validators.set(schema, validate);
      return validate(body)
        ? null
        : `${name}: ${ajv.errorsText(validate.errors)}: ${JSON.stringify(body).slice(0, 500)}`;
    },
  };
}

/** Checks every answer of an application's `inject` from now on. An undeclared answer fails the test that got it. */
export function checkInjected(app: FastifyInstance, answers: AnswerCheck): void {
  const inject = app.inject.bind(app) as (options: InjectOptions) => ReturnType<FastifyInstance['inject']>;
  const checked = async (options: InjectOptions) => {
    const answer = await inject(options);
    const contentType = String(answer.headers['content-type'] ?? '');
    const fault = options.payloadAsStream
      ? null
      : answers.faultOf({
          method: options.method ?? 'GET',
          url: String(options.url ?? options.path),
          status: answer.statusCode,
          contentType,
          body: contentType.includes('json') ? answer.json() : answer.body,
        });
    if (fault !== null) throw new Error(fault);
    return answer;
  };
  app.inject = checked as typeof app.inject;
}
