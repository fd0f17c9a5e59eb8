/** Wall L1: the locked realm in which a bundle is evaluated. */
// Must be imported before ses, which freezes the intrinsics with its `harden`.
import { freezeIteration, hardenOverridable } from './harden.ts';
import 'ses';
import { findConstantGlobals, mayAssignIterator } from './constant-globals.ts';
import { replaceFunctionConstructors } from './function-constructors.ts';
import { rememberLanguage } from './language.ts';

/** Returns the value of each global when it is first read. */
export type LazyGlobals = Readonly<Record<string, () => unknown>>;

export interface Realm {
  /**
   * Runs a bundle with these globals besides the language's own.
   *
   * @param source a strict-mode script
   * @param sourceName its name in stack traces
   * @param lazyGlobals globals whose values are made when they are first read
   * @throws what the script throws
   */
  evaluate(
    source: string,
    sourceName: string,
    globals: Readonly<Record<string, unknown>>,
    lazyGlobals: LazyGlobals,
  ): void;
  /**
   * Runs a program of this project among the plugin's intrinsics, in a compartment that the plugin cannot change.
   *
   * @returns what its last expression is, hardened
   */
  evaluateProgram(source: string, globals: Readonly<Record<string, unknown>>): unknown;
  /** Freezes a value and everything reachable from it. Programs may still assign its names on objects that inherit it. */
  harden<T>(value: T): T;
  /** Defines globals to whose members a bundle assigns, and which it cannot assign themselves. */
  defineGroups(groups: Readonly<Record<string, object>>): void;
  /** Replaces globals of the evaluated bundle. */
  replace(globals: Readonly<Record<string, unknown>>): void;
  /** Defines globals of the evaluated bundle whose values are made when they are first read. */
  define(lazyGlobals: LazyGlobals): void;
  /** Removes globals of the evaluated bundle. */
  remove(names: readonly string[]): void;
}

type GlobalObject = Record<PropertyKey, unknown>;

/** Freezes every intrinsic of this process and returns a realm that can reach nothing else. Irreversible. */
export function lockRealm(): Realm {
  const language = rememberLanguage();
  // ses would freeze `Buffer`, which takes time, although no program can reach it.
  const { Buffer } = globalThis;
  Reflect.deleteProperty(globalThis, 'Buffer');
  repairIntrinsics({
    // Stack traces stay readable, because they are mapped to the author's files. At worst they show this program's frames.
    errorTaming: 'unsafe',
    stackFiltering: 'verbose',
    consoleTaming: 'unsafe',
    domainTaming: 'unsafe',
    localeTaming: 'unsafe',
    // `hardenOverridable` covers every intrinsic.
    overrideTaming: 'min',
    regExpTaming: 'safe',
    evalTaming: 'safe-eval',
    // ses removes language features that it does not know without reporting them.
    reporting: 'none',
    errorTrapping: 'none',
    unhandledRejectionTrapping: 'none',
  });
  Object.assign(globalThis, { Buffer });
  language.restore();
  const openCompartment = (globals: Readonly<Record<string, unknown>>): Compartment => {
    const compartment = new Compartment({ __options__: true, globals: {} });
    // ses adds its own tools to every compartment, but programs get only the documented globals.
    for (const name of ['lockdown', 'harden', 'Compartment']) Reflect.deleteProperty(compartment.globalThis, name);
    defineGlobals(compartment.globalThis, { ...language.globals, ...globals });
    defineLazily(compartment.globalThis, language.lazyGlobals);
    return compartment;
  };
  const compartment = openCompartment({});
  const realm: GlobalObject = compartment.globalThis;
  const functionConstructor = replaceFunctionConstructors(realm, (source) => compartment.evaluate(source));
  defineGlobals(realm, { self: realm, global: realm, Function: functionConstructor });
  const shared = listValues(realm);
  hardenIntrinsics();
  for (const value of [...shared.values(), ...language.hidden]) if (value !== realm) hardenOverridable(value);
  return {
    harden: hardenOverridable,
    evaluate(source, sourceName, globals, lazyGlobals) {
      freezeIteration(mayAssignIterator(source));
      defineGlobals(realm, globals);
      defineLazily(realm, lazyGlobals);
      // The name appears in stack traces.
      evaluateIn(compartment, shared, `${source}\n//# sourceURL=${sourceName.replace(/[^\w./@-]/g, '_')}`);
    },
    evaluateProgram(source, globals) {
      const own = openCompartment(globals);
      // Stack traces leave out the frames of this file: see `text.ts`.
      return hardenOverridable(evaluateIn(own, listValues(own.globalThis), `${source}\n//# sourceURL=/child.cjs`));
    },
    defineGroups: (groups) => defineGroups(realm, groups),
    replace: (globals) => defineGlobals(realm, globals),
    define: (lazyGlobals) => defineLazily(realm, lazyGlobals),
    remove(names) {
      for (const name of names) Reflect.deleteProperty(realm, name);
    },
  };
}

/** Like the language's own, these globals are not enumerable and may be replaced. */
const describeGlobal = (value: unknown): PropertyDescriptor => ({
  value,
  writable: true,
  enumerable: false,
  configurable: true,
});

/** The own properties of an object that have values now, by name. Reads descriptors, so that no lazy value is made. */
function listValues(object: object): Map<string, unknown> {
  const values = new Map<string, unknown>();
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(object)))
    if (value !== undefined) values.set(name, value);
  return values;
}

/** Evaluates a script around which those of the globals that it does not replace are constants. */
function evaluateIn(compartment: Compartment, globals: ReadonlyMap<string, unknown>, source: string): unknown {
  const constants = findConstantGlobals(source, [...globals.keys()]).map((name) => [name, globals.get(name)]);
  // ses declares as constants what is frozen here.
  return compartment.evaluate(source, { __moduleShimLexicals__: Object.freeze(Object.fromEntries(constants)) });
}

function defineGlobals(realm: GlobalObject, globals: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(globals)) Object.defineProperty(realm, name, describeGlobal(value));
}

function defineGroups(realm: GlobalObject, groups: Readonly<Record<string, object>>): void {
  for (const [name, group] of Object.entries(groups)) {
    const accessors = hardenOverridable({
      get: () => group,
      set: () => {
        throw new TypeError(`${name} cannot be assigned itself: assign its members, as in ${name}.name = …`);
      },
    });
    Object.defineProperty(realm, name, { ...accessors, enumerable: false, configurable: true });
  }
}

function defineLazily(realm: GlobalObject, lazyGlobals: LazyGlobals): void {
  for (const [name, load] of Object.entries(lazyGlobals)) {
    const setValue = (value: unknown): void => defineGlobals(realm, { [name]: value });
    Object.defineProperty(realm, name, {
      get(): unknown {
        const value = load();
        // Fails where the bundle has frozen its global object: then each use calls `load`, which returns the same value.
        Reflect.defineProperty(realm, name, describeGlobal(value));
        return value;
      },
      set: setValue,
      enumerable: false,
      configurable: true,
    });
  }
}
