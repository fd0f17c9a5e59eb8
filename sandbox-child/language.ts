/**
 * Restores what ses removes from the language because programs may share a process. Here each plugin has a process of its own, so
 * clock, randomness and observers of the garbage collector are harmless.
 */
import type { LanguageGlobal } from '../sdk/contract/realm-globals.ts';
import { describeAsLanguage, hardenOverridable } from './harden.ts';

/** Globals that ses replaces or leaves out. */
const RESTORED_GLOBALS = [
  ...(['Date', 'Math', 'RegExp', 'WeakRef', 'FinalizationRegistry', 'SuppressedError', 'DisposableStack'] as const),
  ...(['AsyncDisposableStack', 'Float16Array', 'Float32Array', 'Float64Array'] as const),
] as const satisfies readonly LanguageGlobal[];

const asyncIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}.prototype));
/** Members that ses removes or replaces. ses also replaces the constructor of errors. */
const MEMBERS: readonly (readonly [findOwner: () => object, key: PropertyKey])[] = [
  [() => Iterator.prototype, Symbol.dispose],
  // Accessors in the language, so that programs can assign them on own objects.
  [() => Iterator.prototype, 'constructor'],
  [() => Iterator.prototype, Symbol.toStringTag],
  [() => asyncIteratorPrototype, Symbol.asyncDispose],
  [() => Error.prototype.constructor, 'isError'],
  // That of ses empties the stack, which custom errors and libraries pass here. The stacks of all errors are shown anyway.
  [() => Error.prototype.constructor, 'captureStackTrace'],
  [() => RegExp.prototype, 'constructor'],
  [() => Date.prototype, 'constructor'],
  // Accessors in the language that throw.
  [() => Function.prototype, 'caller'],
  [() => Function.prototype, 'arguments'],
];
/** The static properties of RegExp that stay. V8's others show the last match, a state that all code of a process shares. */
const STATICS_OF_REGEXP: readonly PropertyKey[] = ['length', 'name', 'prototype', 'escape', Symbol.species];

/** The part of Temporal that reads the clock. */
interface Clock {
  readonly Instant: { fromEpochMilliseconds(ms: number): { toZonedDateTimeISO(zone: unknown): ZonedTime } };
  readonly Now: { timeZoneId(): string };
}
interface ZonedTime {
  toPlainDate(): unknown;
  toPlainDateTime(): unknown;
  toPlainTime(): unknown;
}

interface Language {
  /** The globals that ses replaces or leaves out, as the language has them. */
  readonly globals: Readonly<Record<string, unknown>>;
  /** Large globals that most programs never use. Each is hardened at its first use, so that an empty child does not pay for it. */
  readonly lazyGlobals: Readonly<Record<string, () => object>>;
  /** Objects that only syntax or a call can reach. Their prototypes are intrinsics. */
  readonly hidden: readonly unknown[];
  /** Puts back what ses removed from the intrinsics. Call it before they are frozen. */
  restore(): void;
}

/** Remembers what ses removes. Call it before ses does. */
export function rememberLanguage(): Language {
  const all = globalThis as unknown as Readonly<Record<string, unknown>>;
  // `bulkhead check` also runs on a Node that lacks some of them.
  const globals = Object.fromEntries(RESTORED_GLOBALS.filter((name) => name in all).map((name) => [name, all[name]]));
  const members = MEMBERS.map(([findOwner, key]) => Reflect.getOwnPropertyDescriptor(findOwner(), key));
  for (const key of Reflect.ownKeys(RegExp)) {
    if (!STATICS_OF_REGEXP.includes(key)) Reflect.deleteProperty(RegExp, key);
  }
  return {
    globals,
    lazyGlobals: { Intl: openIntl, ...('Temporal' in all ? { Temporal: openTemporal } : {}) },
    hidden: makeHidden(),
    restore() {
      for (const [index, [findOwner, key]] of MEMBERS.entries()) {
        const member = members[index];
        if (member) Object.defineProperty(findOwner(), key, member);
      }
      // ses replaced the constructor of errors, because the original one shows the frames of this program.
      if (globals.SuppressedError) Object.setPrototypeOf(globals.SuppressedError, Error.prototype.constructor);
      // ses offers its own `freeze` to every program.
      Reflect.deleteProperty(Object, Symbol.for('harden'));
      if ('Temporal' in all) {
        wrapMethod(Date.prototype, 'toTemporalInstant', (makeInstant) => {
          openTemporal();
          return makeInstant();
        });
      }
      restoreProto();
      describeAsLanguage();
    },
  };
}

function makeHidden(): unknown[] {
  return [
    ...[async () => {}, function* () {}, async function* () {}],
    ...[[].values(), ''[Symbol.iterator](), ''.matchAll(/x/g), new Map().values(), new Set().values()],
    ...[[].values().map(String), Iterator.from({ next: () => ({ done: true, value: 0 }) })],
  ];
}

/**
 * Prepares a global at its first use. A step throws if the plugin left too little stack: the next use then begins with that step.
 *
 * @param steps each has no effect if it throws, or may run again
 */
function prepareOnce(steps: readonly (() => void)[]): () => void {
  let done = 0;
  return () => {
    for (const step of steps.slice(done)) {
      step();
      done += 1;
    }
  };
}

const prepareIntl = prepareOnce([
  () => {
    // Only a call leads to the prototypes of segments, and a first call loads the data of all segmenters.
    wrapMethod(Intl.Segmenter.prototype, 'segment', (makeSegments) => {
      const segments = makeSegments() as Intl.Segments;
      hardenOverridable([segments, segments[Symbol.iterator]()].map(Object.getPrototypeOf));
      return segments;
    });
  },
  () => void hardenOverridable(Intl),
]);
function openIntl(): object {
  prepareIntl();
  return Intl;
}

const findTemporal = (): Clock => (globalThis as unknown as { Temporal: Clock }).Temporal;
const prepareTemporal = prepareOnce([() => coarsenClock(findTemporal()), () => void hardenOverridable(findTemporal())]);
function openTemporal(): object {
  prepareTemporal();
  return findTemporal();
}

/** Replaces a method by one with the same name and length that calls it when `work` says so. */
function wrapMethod(owner: object, name: string, work: (call: () => unknown) => unknown): void {
  const method: (...values: unknown[]) => unknown = Reflect.get(owner, name);
  const wrapper = {
    [name](this: unknown, ...values: unknown[]): unknown {
      return work(() => Reflect.apply(method, this, values));
    },
  }[name] as object;
  Object.defineProperty(wrapper, 'length', { value: method.length });
  define(owner, name, wrapper);
}

function define(owner: object, key: PropertyKey, value: unknown): void {
  Object.defineProperty(owner, key, { value, writable: true, enumerable: false, configurable: true });
}

/** `--disable-proto` removes the accessor from every realm. This one gives no power that `Object.setPrototypeOf` does not. */
function restoreProto(): void {
  const accessor = {
    get ['__proto__'](): unknown {
      return Object.getPrototypeOf(this);
    },
    set ['__proto__'](prototype: unknown) {
      const isPrototype = prototype === null || typeof prototype === 'object' || typeof prototype === 'function';
      if (isPrototype) Object.setPrototypeOf(this, prototype);
    },
  };
  Object.defineProperties(Object.prototype, Object.getOwnPropertyDescriptors(accessor));
  Object.defineProperty(Object.prototype, '__proto__', { enumerable: false });
}

/** Gives `Temporal.Now`, which counts nanoseconds, the resolution of `Date.now()`. */
function coarsenClock({ Instant, Now }: Clock): void {
  const now = () => Instant.fromEpochMilliseconds(Date.now());
  const nowIn = (zone: unknown = Now.timeZoneId()) => now().toZonedDateTimeISO(zone);
  // The optional parameters do not count for the length of a method.
  const methods = {
    instant: () => now(),
    zonedDateTimeISO: (...[zone]: unknown[]) => nowIn(zone),
    plainDateTimeISO: (...[zone]: unknown[]) => nowIn(zone).toPlainDateTime(),
    plainDateISO: (...[zone]: unknown[]) => nowIn(zone).toPlainDate(),
    plainTimeISO: (...[zone]: unknown[]) => nowIn(zone).toPlainTime(),
  };
  for (const [name, method] of Object.entries(methods)) define(Now, name, method);
}
