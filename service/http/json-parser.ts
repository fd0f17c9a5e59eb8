/** Parses the JSON of bodies: small ones at once, large ones in a thread, so that no other request waits. */
import secureJsonParse from 'secure-json-parse';
import { findUnstorable } from '../../db/postgres/storable-json.ts';
import type { ProblemCode } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import {
  countValuesMax,
  JSON_LEVELS_MAX,
  JsonError,
  type JsonFault,
  readJson,
} from '../../sdk/contract/untrusted-json.ts';
import { singleWorkerPool } from '../timing/single-worker-pool.ts';

/** Larger bodies are parsed in the thread; they cost more time here than handing them over. Bytes. */
const IN_PLACE_MAX_BYTES = MIB;
const THREAD_HEAP_MB = 256;

interface ParseTask {
  readonly body: Uint8Array;
  /** Maximum size of a body of the route. Bytes. */
  readonly maxBytes: number;
  /** Accept the property names that change an object's prototype where code assigns them. */
  readonly anyNames: boolean;
  /** Accept texts that PostgreSQL cannot store. */
  readonly anyTexts: boolean;
}
type ParseResult =
  | { readonly value: unknown }
  | { readonly fault: 'not_utf8' }
  | { readonly fault: 'unstorable'; readonly field: string; readonly refused: unknown }
  | { readonly fault: ProblemCode; readonly detail: string };

export class JsonParser {
  readonly #thread = singleWorkerPool<ParseTask, ParseResult>(new URL('./json-worker.ts', import.meta.url), {
    name: 'parseJson',
    heapMegabytes: THREAD_HEAP_MB,
  });

  parse(task: ParseTask): ParseResult | Promise<ParseResult> {
    return task.body.byteLength <= IN_PLACE_MAX_BYTES ? parseJson(task) : this.#thread.run(task);
  }

  close(): Promise<void> {
    return this.#thread.destroy();
  }
}

/** How a refusal of JSON is answered, and what the client can do. */
const REFUSALS: Readonly<Record<JsonFault, readonly [code: ProblemCode, advice: string]>> = {
  too_deep: ['bad_request', ' Send flatter JSON.'],
  too_many_values: ['too_large', ' Send fewer, in several requests.'],
  not_utf8: ['bad_request', ''],
  not_json: ['bad_request', ''],
  forbidden_name: ['bad_request', ' Rename it.'],
  inexact_number: ['bad_request', ' Send it as a string.'],
};

export function parseJson({ body, maxBytes, anyNames, anyTexts }: ParseTask): ParseResult {
  const bounds = { levelsMax: JSON_LEVELS_MAX, valuesMax: countValuesMax(maxBytes) };
  // A copy from another thread is a plain array.
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  try {
    const parse = anyNames ? JSON.parse : parseWithoutPrototypes;
    const { value, isSuspect } = readJson(bytes, 0, bytes.byteLength, bounds, parse);
    const field = !anyTexts && isSuspect ? findUnstorable(value) : null;
    return field === null ? { value } : { fault: 'unstorable', field, refused: value };
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    if (error.fault === 'not_utf8') return { fault: 'not_utf8' };
    const [code, advice] = REFUSALS[error.fault];
    return { fault: code, detail: `The body ${error.message}.${advice}` };
  }
}

/** @throws JsonError for names with which code that copies properties would change an object's prototype */
function parseWithoutPrototypes(text: string): unknown {
  try {
    return secureJsonParse(text);
  } catch (error) {
    if (!(error as Error).message.includes('forbidden prototype property')) throw error;
    const names = '“__proto__” or “constructor.prototype”';
    throw new JsonError('forbidden_name', `has a property ${names}, which this address does not accept`);
  }
}
