/**
 * Validates tool arguments against the JSON Schema that introspection recorded, before the child sees them. Plugin authors
 * write the schemas, so each is compiled once per version, in bounded time, and can load no remote schema.
 */
import { createContext, Script } from 'node:vm';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { Problem } from '../../sdk/contract/errors.ts';
import { KIB } from '../../sdk/contract/limits.ts';

/** Larger schemas are rejected: no tool's arguments need them. */
const SCHEMA_MAX_BYTES = 64 * KIB;
/** Compiling takes a few milliseconds, and many times that on a busy machine. Paid once per version. */
const COMPILE_BUDGET_MS = 1_000;
/** A check takes microseconds. Short, because a pattern that backtracks blocks the whole supervisor meanwhile. */
const CHECK_BUDGET_MS = 20;
/** A schema that has used up this many budgets is not tried again, because each blocked the supervisor. */
const STRIKES_MAX = 3;
/** `Retry-After` of a schema that did not compile in time, seconds. */
const RETRY_S = 1;
/** Compiled schemas in the cache. */
const CHECKS_MAX = 2_000;
/** Keywords whose cost can grow faster than the size of the arguments. */
const COSTLY = /"(pattern|patternProperties|\$ref|\$dynamicRef|uniqueItems)"/;

/**
 * A check of arguments that looks at every part of the schema for every value costs about a nanosecond for each pair of a
 * schema's byte and a value; beyond this many pairs it runs under the time limit, too.
 */
const PAIRS_MAX = 10_000_000;

interface CompiledSchema {
  readonly validate: ValidateFunction;
  readonly isCostly: boolean;
  /** Arguments with more values are checked under the time limit. */
  readonly valuesMax: number;
  strikes: number;
}

export class ArgumentChecker {
  readonly #checks = new Map<string, CompiledSchema | Problem>();
  /** How often each schema did not compile in time. Once may be the fault of a busy machine. */
  readonly #lateCompiles = new Map<string, number>();

  /**
   * Checks a tool's arguments.
   *
   * @param key version and tool, whose schema never changes
   * @throws Problem `invalid_arguments` with a path; `plugin_failed` when the schema itself is unusable
   */
  check(key: string, schema: unknown, args: unknown): void {
    const check = this.#getCheck(key, schema);
    if (check instanceof Problem) throw check;
    if (check.strikes >= STRIKES_MAX) throw tooCostlyProblem();
    const isCostly = check.isCostly || countValues(args, check.valuesMax) > check.valuesMax;
    const valid = isCostly ? this.#validateInTime(check, args) : check.validate(args);
    if (valid) return;
    throw new Problem('invalid_arguments', describeError(check.validate.errors?.[0]), {
      errors: (check.validate.errors ?? []).map((error) => ({
        field: formatPath(error),
        message: error.message ?? 'not valid',
      })),
    });
  }

  #getCheck(key: string, schema: unknown): CompiledSchema | Problem {
    const known = this.#checks.get(key);
    if (known) return known;
    const compiled = compile(schema);
    const made = compiled === 'late' ? this.#recordLateCompile(key) : compiled;
    if (this.#checks.size >= CHECKS_MAX) {
      const oldest = this.#checks.keys().next().value;
      if (oldest !== undefined) this.#checks.delete(oldest);
    }
    this.#checks.set(key, made);
    return made;
  }

  /** @throws Problem `unavailable` while the schema may be tried again */
  #recordLateCompile(key: string): Problem {
    const strikes = (this.#lateCompiles.get(key) ?? 0) + 1;
    if (strikes >= STRIKES_MAX) return unusableProblem('it takes too long to compile.');
    if (this.#lateCompiles.size >= CHECKS_MAX) this.#lateCompiles.clear();
    this.#lateCompiles.set(key, strikes);
    throw new Problem('unavailable', 'The tool’s schema was not ready in time. Try again.', { retryAfter: RETRY_S });
  }

  #validateInTime(check: CompiledSchema, args: unknown): unknown {
    const result = runWithTimeout(() => check.validate(args), CHECK_BUDGET_MS);
    if (result.ok) return result.value;
    check.strikes += 1;
    throw tooCostlyProblem();
  }
}

const tooCostlyProblem = () =>
  new Problem('plugin_failed', 'The tool’s schema takes too long to check these arguments.');
const unusableProblem = (why: string) => new Problem('plugin_failed', `The tool’s schema cannot be used: ${why}`);

function compile(schema: unknown): CompiledSchema | Problem | 'late' {
  const text = JSON.stringify(schema);
  if (text.length > SCHEMA_MAX_BYTES) return unusableProblem(`it is larger than ${SCHEMA_MAX_BYTES} bytes.`);
  // One instance per schema, so that equal `$id`s of two plugins do not clash. Without a loader a remote `$ref` is an error.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false, addUsedSchema: false });
  const result = runWithTimeout(() => ajv.compile(schema as object), COMPILE_BUDGET_MS);
  if (!result.ok) return result.late ? 'late' : unusableProblem(result.message);
  return { validate: result.value, isCostly: COSTLY.test(text), valuesMax: PAIRS_MAX / text.length, strikes: 0 };
}

/** How many values JSON holds, itself included; counts no further than one over `max`. */
function countValues(value: unknown, max: number): number {
  let count = 1;
  if (typeof value !== 'object' || value === null) return count;
  for (const part of Object.values(value)) {
    if (count > max) break;
    count += countValues(part, max - count);
  }
  return count;
}

const context = createContext({ work: null as (() => unknown) | null });
const runWork = new Script('work()');

type Done<T> = { ok: true; value: T } | { ok: false; late: boolean; message: string };

/** Runs synchronous work under a time limit. V8 interrupts loops and regular expressions alike. */
function runWithTimeout<T>(work: () => T, ms: number): Done<T> {
  context.work = work;
  try {
    return { ok: true, value: runWork.runInContext(context, { timeout: ms }) as T };
  } catch (error) {
    // The timeout error comes from the other context, so `instanceof` does not hold.
    const late = (error as { code?: unknown } | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
    return { ok: false, late, message: error instanceof Error ? error.message.slice(0, 500) : 'it failed' };
  } finally {
    context.work = null;
  }
}

const formatPath = (error: ErrorObject | undefined): string =>
  `arguments${(error?.instancePath ?? '').replaceAll('/', '.')}`;
const describeError = (error: ErrorObject | undefined): string =>
  `${formatPath(error)} ${error?.message ?? 'is not valid'}.`;
