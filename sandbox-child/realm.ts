/** Wall L1: the locked realm in which a bundle is evaluated. */
import 'ses';

export interface Realm {
  /**
   * Runs a bundle with these globals besides the language's own.
   *
   * @param source a strict-mode script
   * @param sourceName its name in stack traces
   * @throws what the script throws
   */
  evaluate(source: string, sourceName: string, globals: Readonly<Record<string, unknown>>): void;
  /** Freezes a value and everything reachable from it. */
  harden<T>(value: T): T;
  /** Replaces globals of the evaluated bundle. */
  replace(globals: Readonly<Record<string, unknown>>): void;
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
    evaluate(source, sourceName, globals) {
      compartment = new Compartment({ __options__: true, globals: { ...globals } });
      // ses adds its own tools to every compartment, but plugins get only the documented globals.
      for (const name of ['lockdown', 'harden', 'Compartment']) Reflect.deleteProperty(compartment.globalThis, name);
      // The name appears in stack traces.
      compartment.evaluate(`${source}\n//# sourceURL=${sourceName.replace(/[^\w./@-]/g, '_')}`);
    },
    replace(globals) {
      if (compartment) Object.assign(compartment.globalThis, globals);
    },
  };
}
