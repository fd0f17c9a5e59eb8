/** Structured answers: read as JSON and held against the schema that asked for them, in a thread of their own. */
import type { Piscina } from 'piscina';
import { KIB } from '../../../sdk/contract/limits.ts';
import { singleWorkerPool } from '../../../service/timing/single-worker-pool.ts';
import { HostError } from '../host-call.ts';
import type { SchemaTask, SchemaVerdict } from './schema-worker.ts';

const SCHEMA_MAX_BYTES = 64 * KIB;
/** Checks take milliseconds; this ends patterns and schemas that explode. Milliseconds. */
const CHECK_MS = 2_000;
const WAITING_MAX = 256;
const THREAD_HEAP_MB = 128;

export class AnswerChecks {
  readonly #pool: Piscina<SchemaTask, SchemaVerdict>;

  constructor() {
    this.#pool = singleWorkerPool(new URL('./schema-worker.ts', import.meta.url), {
      ...{ name: 'checkAnswer', maxQueue: WAITING_MAX, heapMegabytes: THREAD_HEAP_MB },
    });
  }

  /** Looks at a schema before anybody is paid for an answer. @throws HostError when it cannot be used */
  async accept(schema: SchemaTask['schema']): Promise<void> {
    if (JSON.stringify(schema).length > SCHEMA_MAX_BYTES)
      throw new HostError(`schema is larger than ${SCHEMA_MAX_BYTES} bytes`);
    await this.#ask({ schema });
  }

  /** The answer's value. @throws HostError when it does not fit, in words that hold nothing of it */
  async read(schema: SchemaTask['schema'], answer: { text: string; json?: unknown }): Promise<unknown> {
    const value = answer.json ?? parse(answer.text);
    await this.#ask({ schema, answer: { value } });
    return value;
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }

  async #ask(task: SchemaTask): Promise<void> {
    const verdict = await this.#pool.run(task, { signal: AbortSignal.timeout(CHECK_MS) }).catch(() => {
      throw new HostError('the schema could not be checked in time');
    });
    if (verdict.ok) return;
    if (verdict.fault === 'schema') throw new HostError(`schema cannot be used: ${verdict.why}`);
    throw new HostError(`the model’s answer does not fit the schema: ${verdict.why}`);
  }
}

/** Models like to wrap JSON in a fence. */
const FENCE = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/;

function parse(text: string): unknown {
  try {
    return JSON.parse(FENCE.exec(text)?.[1] ?? text);
  } catch {
    throw new HostError('the model’s answer is not JSON, which the schema asks for');
  }
}
