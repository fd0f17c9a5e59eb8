/**
 * Warns about a hook's handler that changes its context and returns nothing. Such a change is lost, so a redactor written like that
 * lets everything pass, and nothing else would say so.
 */
import type { z } from 'zod';
import type { hookBase } from '../sdk/contract/protocol.ts';
import type { Outcome } from './invocations.ts';
import type { Log } from './log-lines.ts';
import type { Handler } from './signatures.ts';

/** Calls of each handler that are watched: an author sees the warning in the first ones. Watching takes 5 µs, a twentieth of a call. */
const WATCHED_CALLS = 1_000;
/** Values that are compared in one context. Those of a message or a command are fewer. */
const VALUES_MAX = 200;
/** Values that are compared in one object or list, so that a long one does not hide the fields beside it. */
const VALUES_OF_ONE_MAX = 20;
type Unpatched = keyof z.infer<typeof hookBase> | 'signal' | 'cancel';
/** No handler can change these fields for other plugins, so an assignment there is a note for itself. The type keeps the names complete. */
const UNPATCHED: { readonly [Name in Unpatched]: true } = {
  hook: true,
  invocationId: true,
  settings: true,
  agent: true,
  session: true,
  trigger: true,
  at: true,
  deadlineAt: true,
  repeated: true,
  signal: true,
  cancel: true,
};

/** A value as the handler got it. */
interface Given {
  readonly owner: object;
  readonly name: string;
  readonly value: unknown;
  /** Names that the value has, if it is an object or a list. */
  readonly size: number;
  readonly parent: Given | null;
}

export class LostChanges {
  readonly #log: Log;
  /** Watched calls of each handler. */
  readonly #watched = new Map<string, number>();
  /** Handlers that were warned about: each line would say the same. */
  readonly #reported = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** @param run runs the handler that it gets */
  watch(
    name: string,
    handler: Handler,
    run: (handler: Handler) => Outcome | Promise<Outcome>,
  ): Outcome | Promise<Outcome> {
    const watched = this.#watched.get(name) ?? 0;
    if (watched === WATCHED_CALLS || this.#reported.has(name)) return run(handler);
    this.#watched.set(name, watched + 1);
    let given: Given[] = [];
    const outcome = run((context) => {
      given = record(context as object);
      return handler(context);
    });
    const check = (ended: Outcome): Outcome => {
      if (ended.outcome === 'answered' && ended.answer === undefined) this.#report(name, given.find(hasChanged));
      return ended;
    };
    return outcome instanceof Promise ? outcome.then(check) : check(outcome);
  }

  #report(name: string, changed: Given | undefined): void {
    if (!changed || this.#reported.has(name)) return;
    this.#reported.add(name);
    const place = describePlace(changed);
    this.#log(
      'warn',
      `${name} changed ${place} and returned nothing, so the change is lost: handlers get a copy. Return the fields that change`,
    );
  }
}

/** Lists what the context holds, level by level. */
function record(context: object): Given[] {
  const given: Given[] = [];
  const add = (owner: object, parent: Given | null): void => {
    for (const name of listNames(owner)) {
      if (given.length >= VALUES_MAX) return;
      if (parent === null && Object.hasOwn(UNPATCHED, name)) continue;
      const value = (owner as Record<string, unknown>)[name];
      given.push({ owner, name, value, size: countNames(value), parent });
    }
  };
  add(context, null);
  // The list grows meanwhile.
  for (const each of given) if (isCompared(each.value)) add(each.value, each);
  return given;
}

/** Reads no getter, because that would be code of the plugin. */
const hasChanged = ({ owner, name, value, size }: Given): boolean =>
  Object.getOwnPropertyDescriptor(owner, name)?.value !== value || countNames(value) !== size;

/** Bytes are not compared one by one. */
const isCompared = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);

function countNames(value: unknown): number {
  if (!isCompared(value)) return 0;
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

/** Does not list the places of a whole list, which may have many. */
const listNames = (owner: object): string[] =>
  Object.keys(Array.isArray(owner) ? owner.slice(0, VALUES_OF_ONE_MAX) : owner).slice(0, VALUES_OF_ONE_MAX);

function describePlace({ name, owner, parent }: Given): string {
  const before = parent ? describePlace(parent) : 'ctx';
  return Array.isArray(owner) ? `${before}[${name}]` : `${before}.${name}`;
}
