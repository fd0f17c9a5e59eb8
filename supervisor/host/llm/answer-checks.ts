/** Checks structured answers: parses them as JSON and validates them against their schema, in a separate thread. */
import type { Piscina } from 'piscina';
import { KIB } from '../../../sdk/contract/limits.ts';
import { singleWorkerPool } from '../../../service/timing/single-worker-pool.ts';
import { HostError } from '../host-call.ts';
import type { SchemaTask, SchemaVerdict } from './schema-worker.ts';

const SCHEMA_MAX_BYTES = 64 * KIB;
/** Time limit for patterns and schemas that explode; ordinary checks take milliseconds. Milliseconds. */
const CHECK_MS = 2_000;
const WAITING_MAX = 256;
const THREAD_HEAP_MB = 128;

export class AnswerChecks {
  readonly #pool: Piscina<SchemaTask, SchemaVerdict>;

  constructor() {
    this.#pool = singleWorkerPool(new URL('./schema-worker.ts', import.meta.url), {
      name: 'checkAnswer',
      maxQueue: WAITING_MAX,
      heapMegabytes: THREAD_HEAP_MB,
    });
  }

  /** Checks a schema before the model is called. @throws HostError when it is invalid */
  async accept(schema: SchemaTask['schema']): Promise<void> {
    if (JSON.stringify(schema).length > SCHEMA_MAX_BYTES)
      throw new HostError(`schema is larger than ${SCHEMA_MAX_BYTES} bytes`);
    await this.#check({ schema });
  }

  /** Returns the value of an answer. @throws HostError without the answer's content when it does not match */
  async read(schema: SchemaTask['schema'], answer: { text: string; json?: unknown }): Promise<unknown> {
    const value = answer.json ?? parse(answer.text);
    await this.#check({ schema, answer: { value } });
    return value;
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }

  async #check(task: SchemaTask): Promise<void> {
    const verdict = await this.#pool.run(task, { signal: AbortSignal.timeout(CHECK_MS) }).catch(() => {
      throw new HostError('the schema could not be checked in time');
    });
    if (verdict.ok) return;
    if (verdict.fault === 'schema') throw new HostError(`schema cannot be used: ${verdict.why}`);
    throw new HostError(`the model’s answer does not fit the schema: ${verdict.why}`);
  }
}

/** Removes the code fence that models often put around JSON. */
const FENCE = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/;

function parse(text: string): unknown {
  try {
    return JSON.parse(FENCE.exec(text)?.[1] ?? text);
  } catch {
    throw new HostError('the model’s answer is not JSON, which the schema asks for');
  }
}
