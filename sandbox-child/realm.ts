/** Wall L1: the locked realm that a bundle is evaluated in. */
import 'ses';

/** Runs a bundle with exactly these globals besides the language's own. */
export interface Realm {
  /**
   * @param source a strict-mode script
   * @param sourceName how stack traces name it
   * @throws what the script throws
   */
  evaluate(source: string, sourceName: string, globals: Readonly<Record<string, unknown>>): void;
  /** Freezes a value and everything that can be reached from it. */
  harden<T>(value: T): T;
  /** Replaces globals of the evaluated bundle. */
  replace(globals: Readonly<Record<string, unknown>>): void;
}

/** Freezes every intrinsic of this process and answers a realm that reaches nothing else. Irreversible. */
export function lockRealm(): Realm {
  lockdown({
    // Stack traces stay readable: they are mapped to the author's files, and show this bundle's frames at worst.
    errorTaming: 'unsafe',
    stackFiltering: 'verbose',
    consoleTaming: 'unsafe',
    domainTaming: 'unsafe',
    localeTaming: 'unsafe',
    overrideTaming: 'moderate',
    regExpTaming: 'safe',
    evalTaming: 'safe-eval',
    // Language features that ses does not know yet are removed without a word.
    reporting: 'none',
    errorTrapping: 'none',
    unhandledRejectionTrapping: 'none',
  });
  let compartment: Compartment | null = null;
  return {
    harden,
    evaluate(source, sourceName, globals) {
      compartment = new Compartment({ __options__: true, globals: { ...globals } });
      // ses gives every compartment its own tools; authors are promised the language's globals and ours.
      for (const name of ['lockdown', 'harden', 'Compartment']) Reflect.deleteProperty(compartment.globalThis, name);
      // ses evaluates in sloppy scope chains but strict code; the name ends up in stack traces.
      compartment.evaluate(`${source}\n//# sourceURL=${sourceName.replace(/[^\w./@-]/g, '_')}`);
    },
    replace(globals) {
      if (compartment) Object.assign(compartment.globalThis, globals);
    },
  };
}
