/** Checks answers against an OpenAPI document: route, status, problem code, content type and body must be declared. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { FastifyInstance, InjectOptions } from 'fastify';
import type { OpenApiDocument, Operation } from '../../service/http/openapi.ts';

interface Declared {
  readonly method: string;
  readonly path: string;
  readonly pattern: RegExp;
  readonly operation: Operation;
}
export interface SeenAnswer {
  readonly method: string;
  readonly url: string;
  readonly status: number;
  readonly contentType: string;
  readonly body: unknown;
}
export interface AnswerCheck {
  /** The operation an address belongs to, or none. */
  find(method: string, url: string): Declared | undefined;
  /** What is wrong with an answer; null when it is as declared, or its address is not in the document. */
  faultOf(answer: SeenAnswer): string | null;
}

export function checkAnswers(document: OpenApiDocument): AnswerCheck {
  // Not against the meta-schema: openapi.test.ts validates the whole document.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, validateSchema: false });
  ajv.addSchema({ $id: 'bulkhead:document', ...document });
  const validators = new Map<string, ValidateFunction>();
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
      const pointer = ['paths', route.path, method.toLowerCase(), 'responses', status, 'content', type, 'schema'];
      const ref = `bulkhead:document#/${pointer
        .map((part) => String(part).replaceAll('~', '~0').replaceAll('/', '~1'))
        .map(encodeURIComponent)
        .join('/')}`;
      const validate = validators.get(ref) ?? ajv.compile({ $ref: ref });
      validators.set(ref, validate);
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
