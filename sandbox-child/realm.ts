/** Wall L1: the locked realm in which a bundle is evaluated. */
import 'ses';

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
  /** Freezes a value and everything reachable from it. */
  harden<T>(value: T): T;
  /** Replaces globals of the evaluated bundle. */
  replace(globals: Readonly<Record<string, unknown>>): void;
  /** Defines globals of the evaluated bundle whose values are made when they are first read. */
  define(lazyGlobals: LazyGlobals): void;
  /** Removes globals of the evaluated bundle. */
  remove(names: readonly string[]): void;
}

/** Freezes every intrinsic of this process and returns a realm that can reach nothing else. Irreversible. */
export function lockRealm(): Realm {
  lockdown({
    // Stack traces stay readable, because they are mapped to the author's files. At worst they show this program's frames.
    errorTaming: 'unsafe',
    stackFiltering: 'verbose',
    consoleTaming: 'unsafe',
    domainTaming: 'unsafe',
    localeTaming: 'unsafe',
    overrideTaming: 'moderate',
    regExpTaming: 'safe',
    evalTaming: 'safe-eval',
    // ses removes language features that it does not know without reporting them.
    reporting: 'none',
    errorTrapping: 'none',
    unhandledRejectionTrapping: 'none',
  });
  let compartment: Compartment | null = null;
  return {
    harden,
    evaluate(source, sourceName, globals, lazyGlobals) {
      compartment = new Compartment({ __options__: true, globals: { ...globals } });
      // ses adds its own tools to every compartment, but plugins get only the documented globals.
      for (const name of ['lockdown', 'harden', 'Compartment']) Reflect.deleteProperty(compartment.globalThis, name);
      defineLazily(compartment.globalThis, lazyGlobals);
      // The name appears in stack traces.
      compartment.evaluate(`${source}\n//# sourceURL=${sourceName.replace(/[^\w./@-]/g, '_')}`);
    },
    evaluateProgram(source, globals) {
      return harden(new Compartment({ __options__: true, globals: { ...globals } }).evaluate(source));
    },
    replace(globals) {
      if (compartment) Object.assign(compartment.globalThis, globals);
    },
    define(lazyGlobals) {
      if (compartment) defineLazily(compartment.globalThis, lazyGlobals);
    },
    remove(names) {
      for (const name of names) if (compartment) Reflect.deleteProperty(compartment.globalThis, name);
    },
  };
}

/** Like the web's, these globals are not enumerable and may be replaced. */
function defineLazily(globalObject: object, lazyGlobals: LazyGlobals): void {
  for (const [name, load] of Object.entries(lazyGlobals)) {
    const setValue = (value: unknown): void => {
      Object.defineProperty(globalObject, name, { value, writable: true, enumerable: false, configurable: true });
    };
    Object.defineProperty(globalObject, name, {
      get(): unknown {
        const value = load();
        setValue(value);
        return value;
      },
      set: setValue,
      enumerable: false,
      configurable: true,
    });
  }
}
