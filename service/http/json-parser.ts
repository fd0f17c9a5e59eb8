/** Parses the JSON of bodies: small ones at once, large ones in a thread, so that no other request waits. */
import secureJsonParse from 'secure-json-parse';
import { findUnstorable, isSuspectJson } from '../../db/postgres/storable-json.ts';
import { Problem, type ProblemCode } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { singleWorkerPool } from '../timing/single-worker-pool.ts';
import { refuseCostlyJson } from './json-size.ts';

/** Larger bodies are parsed in the thread; they cost more time here than handing them over. Bytes. */
const IN_PLACE_MAX_BYTES = MIB;
const THREAD_HEAP_MB = 256;

interface ParseTask {
  readonly body: Uint8Array;
  /** What the route accepts, bytes. */
  readonly maxBytes: number;
  /** Accept the property names that change an object's prototype where code assigns them. */
  readonly anyNames: boolean;
  /** Accept texts that PostgreSQL cannot store. */
  readonly anyTexts: boolean;
}
type ParseResult =
  | { readonly value: unknown }
  | { readonly fault: 'not_utf8' }
  | { readonly fault: 'unstorable'; readonly field: string }
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

/** Parses one body. */
export function parseJson({ body, maxBytes, anyNames, anyTexts }: ParseTask): ParseResult {
  try {
    refuseCostlyJson(body, maxBytes);
    const action = anyNames ? 'ignore' : 'error';
    const json = decode(body);
    const value: unknown = secureJsonParse(json, { protoAction: action, constructorAction: action });
    // Both need an escape: UTF-8 encodes no surrogates, and JSON no raw U+0000.
    const field = !anyTexts && isSuspectJson(json) ? findUnstorable(value) : null;
    return field === null ? { value } : { fault: 'unstorable', field };
  } catch (error) {
    if (error instanceof TypeError) return { fault: 'not_utf8' };
    if (error instanceof Problem) return { fault: error.code, detail: error.message };
    return { fault: 'bad_request', detail: `The body is not valid JSON${findPlace(error as Error)}.` };
  }
}

/** @throws TypeError where the bytes are not UTF-8 */
function decode(body: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
}

/** Where the parser stopped, if its error says so. The error also quotes the body, which is not repeated. */
function findPlace({ message }: Error): string {
  const [, line, column] = /\(line (\d+) column (\d+)\)/.exec(message) ?? [];
  return line === undefined ? '' : `: line ${line}, column ${column}`;
}
