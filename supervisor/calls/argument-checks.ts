/**
 * Tool arguments against the JSON Schema that introspection recorded, before the child sees them. The schema is a
 * stranger's: it is compiled once a version, in bounded time, and it can neither fetch nor stall anything.
 */
import { createContext, Script } from 'node:vm';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { Problem } from '../../sdk/contract/errors.ts';
import { KIB } from '../../sdk/contract/limits.ts';

/** Larger schemas are refused: no tool's arguments need them. */
const SCHEMA_MAX_BYTES = 64 * KIB;
/** Compiling takes a few milliseconds, many times that on a busy machine; this ends schemas that explode. Once a version. */
const COMPILE_BUDGET_MS = 1_000;
/** Checking takes microseconds; this ends catastrophic patterns. The supervisor stands still meanwhile, so it is short. */
const CHECK_BUDGET_MS = 20;
/** After this many exhausted budgets the schema is not tried again: each one held up everybody. */
const STRIKES_MAX = 3;
/** When to try again after a busy moment, seconds. */
const RETRY_S = 1;
/** Compiled schemas kept. */
const CHECKS_MAX = 2_000;
/** Keywords whose cost can grow faster than the arguments do. */
const COSTLY = /"(pattern|patternProperties|\$ref|\$dynamicRef|uniqueItems)"/;

interface Check {
  readonly validate: ValidateFunction;
  readonly guarded: boolean;
  strikes: number;
}

export class ArgumentChecks {
  readonly #checks = new Map<string, Check | Problem>();
  /** How often a schema did not compile in time: a busy machine may be at fault once, not every time. */
  readonly #late = new Map<string, number>();

  /**
   * Checks a tool's arguments.
   *
   * @param key the version and tool: one schema for ever
   * @throws Problem `invalid_arguments` with a path; `plugin_failed` when the schema itself is at fault
   */
  check(key: string, schema: unknown, args: unknown): void {
    const check = this.#compiled(key, schema);
    if (check instanceof Problem) throw check;
    if (check.strikes >= STRIKES_MAX) throw tooCostly();
    const valid = check.guarded ? this.#guarded(check, args) : check.validate(args);
    if (valid) return;
    throw new Problem('invalid_arguments', describe(check.validate.errors?.[0]), {
      errors: (check.validate.errors ?? []).map((error) => ({
        field: pathOf(error),
        message: error.message ?? 'not valid',
      })),
    });
  }

  #compiled(key: string, schema: unknown): Check | Problem {
    const known = this.#checks.get(key);
    if (known) return known;
    const compiled = compile(schema);
    const made = compiled === 'late' ? this.#tooLate(key) : compiled;
    if (this.#checks.size >= CHECKS_MAX) {
      const oldest = this.#checks.keys().next().value;
      if (oldest !== undefined) this.#checks.delete(oldest);
    }
    this.#checks.set(key, made);
    return made;
  }

  /** @throws Problem `unavailable` while it may be tried again */
  #tooLate(key: string): Problem {
    const strikes = (this.#late.get(key) ?? 0) + 1;
    if (strikes >= STRIKES_MAX) return refused('it takes too long to compile.');
    if (this.#late.size >= CHECKS_MAX) this.#late.clear();
    this.#late.set(key, strikes);
    throw new Problem('unavailable', 'The tool’s schema was not ready in time. Try again.', { retryAfter: RETRY_S });
  }

  #guarded(check: Check, args: unknown): unknown {
    const result = withinTime(() => check.validate(args), CHECK_BUDGET_MS);
    if (result.ok) return result.value;
    check.strikes += 1;
    throw tooCostly();
  }
}

const tooCostly = () => new Problem('plugin_failed', 'The tool’s schema takes too long to check these arguments.');
const refused = (why: string) => new Problem('plugin_failed', `The tool’s schema cannot be used: ${why}`);

function compile(schema: unknown): Check | Problem | 'late' {
  const text = JSON.stringify(schema);
  if (text.length > SCHEMA_MAX_BYTES) return refused(`it is larger than ${SCHEMA_MAX_BYTES} bytes.`);
  // One instance a schema: equal `$id`s of two plugins must not meet. Without a loader a remote `$ref` is an error.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false, addUsedSchema: false });
  const result = withinTime(() => ajv.compile(schema as object), COMPILE_BUDGET_MS);
  if (!result.ok) return result.late ? 'late' : refused(result.message);
  return { validate: result.value, guarded: COSTLY.test(text), strikes: 0 };
}

const arena = createContext({ work: null as (() => unknown) | null });
const start = new Script('work()');

type Done<T> = { ok: true; value: T } | { ok: false; late: boolean; message: string };

/** Runs something synchronous and ends it when its time is over: V8 interrupts loops and regular expressions alike. */
function withinTime<T>(work: () => T, ms: number): Done<T> {
  arena.work = work;
  try {
    return { ok: true, value: start.runInContext(arena, { timeout: ms }) as T };
  } catch (error) {
    // The timeout's error is of the other context, and so no instance of ours.
    const late = (error as { code?: unknown } | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
    return { ok: false, late, message: error instanceof Error ? error.message.slice(0, 500) : 'it failed' };
  } finally {
    arena.work = null;
  }
}

const pathOf = (error: ErrorObject | undefined): string =>
  `arguments${(error?.instancePath ?? '').replaceAll('/', '.')}`;
const describe = (error: ErrorObject | undefined): string => `${pathOf(error)} ${error?.message ?? 'is not valid'}.`;
