/**
 * An attempt of an attacker inside a child: the body of an async function that answers something if it reached what it must
 * not reach, and throws or answers nothing if it was stopped. `need('fs')` gets a built-in module by any way known.
 * `$secretFile`, `$port`, `$socket`, `$hostPid`, `$siblingPid` stand for things of the host.
 */
export interface Probe {
  readonly name: string;
  readonly code: string;
  /** It may spoil its process for the next probe, or end it: its child is not used again. */
  readonly alone?: boolean;
  /** Only these answers count: what it changes may garble every other. */
  readonly counts?: RegExp;
}

/** Rows of one kind: `name: code`. */
export type Rows = Readonly<Record<string, string>>;
export const rowsOf = (rows: Rows, more: Omit<Probe, 'name' | 'code'> = {}): readonly Probe[] =>
  Object.entries(rows).map(([name, code]) => ({ name, code, ...more }));

/** Every way out of a realm that is known to have worked somewhere. */
export const PRELUDE = `
  const ways = [
    () => process,
    () => globalThis.process,
    () => Function('return process')(),
    () => (0, eval)('process'),
    () => (async () => {}).constructor('return process')(),
    () => (function* () {}).constructor('return process')().next().value,
    () => host.log.constructor('return process')(),
    () => ctx.cancel.constructor('return process')(),
    () => ctx.constructor.constructor('return process')(),
    () => ctx.settings.constructor.constructor('return process')(),
    () => Object.getPrototypeOf(ctx).constructor.constructor('return process')(),
    () => setTimeout.constructor('return process')(),
    () => console.log.constructor('return process')(),
    () => new URL('http://a').constructor.constructor('return process')(),
    () => crypto.subtle.digest.constructor('return process')(),
    () => { try { new URL('not a url'); } catch (e) { return e.constructor.constructor('return process')(); } },
    () => { try { null.x; } catch (e) { return e.constructor.constructor('return process')(); } },
    () => { try { structuredClone(() => 0); } catch (e) { return e.constructor.constructor('return process')(); } },
    () => { try { atob('*'); } catch (e) { return e.constructor.constructor('return process')(); } },
    () => { let f; const deep = () => { try { deep(); } catch (e) { f ??= e; } }; deep(); return f.constructor.constructor('return process')(); },
    () => { Error.prepareStackTrace = (e, calls) => calls; const calls = new Error().stack; return calls.map((c) => c.getThis?.()).find((t) => t?.process)?.process; },
    () => { const C = class extends Array { static get [Symbol.species]() { return Function; } }; return new C('return process').map((x) => x)(); },
    () => Reflect.construct(Function, ['return process'], class {})(),
    () => new Compartment({ globals: {}, __options__: true }).evaluate('process'),
    () => arguments.callee.caller.arguments[0].process,
    () => new ShadowRealm().evaluate('process'),
  ];
  let way = null;
  for (const attempt of ways) {
    try { const found = attempt(); if (found && found.versions) { way = found; break; } } catch {}
  }
  const need = (name) => {
    if (!way) throw new Error('no way out of the realm');
    return way.getBuiltinModule(name);
  };
  const soon = (work) => new Promise((resolve, reject) => { work(resolve, reject); setTimeout(() => reject(new Error('late')), 400); });
`;

/**
 * Looks for Node from a value that a probe got hold of. With the realm up, reaching `process` is the escape; with the
 * realm down everybody has it, and the asset is a file of the host.
 */
const SEEK = `
  const seek = (value) => {
    const tries = [
      () => value,
      () => value.process,
      () => value.global.process,
      () => value('return process')(),
      () => value('return process')().next().value,
      () => value.constructor('return process')(),
      () => value.constructor.constructor('return process')(),
      () => Object.getPrototypeOf(value).constructor.constructor('return process')(),
      () => value.then.constructor('return process')(),
      () => value.name.constructor.constructor('return process')(),
      () => value[0].constructor.constructor('return process')(),
    ];
    for (const attempt of tries) {
      try { const found = attempt(); if (found && typeof found.versions.node === 'string') return found; } catch {}
    }
    throw new Error('nothing of Node');
  };
  const assetOf = (value) => {
    const found = seek(value);
    return $realm ? 'process' : found.getBuiltinModule('fs').readFileSync('$secretFile', 'utf8');
  };
`;

/** Rows whose code answers a value to look for Node from. */
export const seekRows = (rows: Rows): readonly Probe[] =>
  Object.entries(rows).map(([name, code]) => ({
    name,
    code: `${SEEK} return assetOf(await (async () => { ${code} })());`,
    counts: /^process$|canary/,
  }));
