/** Checks the answers to `host.llm.complete` against the schema that the plugin asks for. */
import type { SendCall } from './host.ts';
import { Schema } from './schema-realm.ts';

const MEMBER = 'llm.complete';
/**
 * Removes the code fence that models often put around JSON. Only one line break can end its first line: with a choice, an answer
 * of endless blank lines would take quadratic time.
 */
const FENCE = /^\s*```(?:json)?[^\S\n]*\n([\s\S]*?)\n?```\s*$/;

interface Completion {
  readonly text: string;
  /** Set by providers that return structured answers. */
  readonly json?: unknown;
}

/** Wraps the sending of host calls. */
export function checkAnswers(send: SendCall): SendCall {
  return (member, args) => {
    const [request] = args;
    return member === MEMBER && isObject(request) && isObject(request.schema)
      ? completeWithSchema(send, request)
      : send(member, args);
  };
}

async function completeWithSchema(send: SendCall, request: Readonly<Record<string, unknown>>): Promise<unknown> {
  // A copy, because the plugin could change its schema while the model answers.
  const schema: object = JSON.parse(JSON.stringify(request.schema));
  // Compiled before the call, which costs money.
  const compiled = useSchema(() => new Schema(schema));
  const completion = (await send(MEMBER, [{ ...request, schema }])) as Completion;
  const json = completion.json === undefined ? parseAnswer(completion.text) : completion.json;
  const [fault] = useSchema(() => compiled.apply(json));
  if (!fault) return { ...completion, json };
  throw refusal(`the model’s answer does not fit the schema: ${`${fault.path} ${fault.message}`.trim()}`);
}

function useSchema<T>(use: () => T): T {
  try {
    return use();
  } catch (error) {
    throw refusal(`schema cannot be used: ${(error as Error).message}`);
  }
}

function parseAnswer(text: string): unknown {
  try {
    return JSON.parse(FENCE.exec(text)?.[1] ?? text);
  } catch {
    throw refusal('the model’s answer is not JSON, which the schema asks for');
  }
}

/** Like a refusal by the supervisor. */
const refusal = (message: string): Error => Object.assign(new Error(`host.${MEMBER}: ${message}`), { code: 'failed' });

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
