/**
 * The classes of escape behind published advisories of other sandboxes, as cases of our own: vm2 since 2026, SandboxJS, SES,
 * realms-shim, near-membrane, safe-eval, static-eval and notevil. vm2's older ones are in `membrane.ts`. Each row answers a value
 * that may lead to Node.
 */
import { type Rows, seekRows } from './probe.ts';

const vm2: Rows = {
  'GHSA-3vgf-8m4q-q4qr: the prototypes of binary data':
    'return [Uint8Array, DataView, ArrayBuffer].map((c) => Object.getPrototypeOf(c.prototype).constructor.constructor)[0];',
  'GHSA-j89j-5m6r-cr2q: a host function’s this is the global object':
    'return [host.log, setTimeout, atob, structuredClone].map((f) => { try { return f.call(undefined, "eA=="); } catch (e) { return e; } }).find((v) => v && typeof v === "object");',
  'GHSA-grj5-jjm8-h35p: the species of an array that the host made':
    'const list = new URLSearchParams("a=b&a=c").getAll("a"); let found; try { list.constructor = { [Symbol.species]: function (n) { found = this; return []; } }; list.map((x) => x); } catch (e) { return e; } return found?.constructor.constructor;',
  'GHSA-x6m4-chr9-cg97: methods of strings are replaced':
    'let found; const own = Object.create(String.prototype); own.replace = function (...a) { found = a; return ""; }; try { host.log(own); } catch (e) { return e; } return found;',
  'GHSA-jf8q-945g-9q4c, GHSA-m5q2-4fm3-vfqp: util.promisify.custom':
    'let found; const f = () => 0; f[Symbol.for("nodejs.util.promisify.custom")] = (...a) => { found = a; }; setTimeout(f, 0); queueMicrotask(f); await soon((ok) => setTimeout(ok, 5)); return found;',
  'GHSA-v37h-5mfm-c47c: a handler of a proxy is reached':
    'const p = new Proxy(function () {}, { get(t, k) { return k === "handler" ? this : undefined; } }); host.log("x", { p }); return p.handler.constructor.constructor;',
  'GHSA-qcp4-v2jj-fjx8: the target of a host object’s proxy':
    'let found; const h = Object.create(tools, { x: { set(v) { found = this; } } }); try { h.x = 1; } catch (e) { return e; } return found.constructor.constructor;',
  'GHSA-633r-hq9m-c4ff: a descriptor that the host copies':
    'let found; const o = {}; Object.defineProperty(o, "a", { get() { found = arguments; return 1; }, enumerable: true }); host.log("x", o); structuredClone(o); return found;',
  'GHSA-v6mx-mf47-r5wg: two bridges to one object':
    'return new Map([[host, 1]]).get(host) ? Object.getPrototypeOf(host)?.constructor.constructor : undefined;',
  'GHSA-489w-w794-jq94, GHSA-fcqc-726x-5wfc: memory that the host pools':
    'const b = new TextEncoder().encode("x").buffer; const all = new TextDecoder("latin1").decode(b); return b.byteLength > 1 && /process|node/.test(all) ? { versions: { node: all } } : undefined;',
  'GHSA-2v2p-6j97-cjg9: then of a host promise is replaced':
    'let found; const p = crypto.subtle.digest("SHA-256", new Uint8Array(1)); p.then = (...a) => { found = a; }; await p; return found?.[0];',
  'GHSA-647f-g98j-qq25: call and apply are replaced on a host function':
    'let found; try { host.log.call = (...a) => { found = a; }; } catch {} const f = Object.setPrototypeOf(() => 0, { apply(...a) { found = a; }, call(...a) { found = a; } }); queueMicrotask(f); setTimeout(f, 0); await soon((ok) => setTimeout(ok, 5)); return found;',
  'GHSA-6454-5x88-m6jw: Reflect.apply on an array that looks back':
    'let found; try { Reflect.apply(host.log, null, { get length() { found = arguments; return 1; }, 0: "x" }); } catch (e) { return e; } return found;',
  'GHSA-vwrp-x96c-mhwq: an intrinsic of the host is known by its identity':
    'return [Object, Array, Map, Promise, Error].find((c) => new c(() => 0).constructor !== c);',
  'GHSA-88hf-g992-jg85: a constructor of functions behind any function':
    'return [host.log, setTimeout, Array.prototype.map, Object.getOwnPropertyDescriptor, Reflect.get, Function, Promise.resolve].map((f) => f.constructor("return process")()).find((v) => v);',
  'GHSA-gjq8-xm47-88rc: what a host function throws of an own getter':
    'try { structuredClone({ get a() { throw new Proxy({}, { get(t, k, r) { return r; } }); } }); } catch (e) { return e.constructor.constructor; }',
  'GHSA-9qj6-qjgg-37qq: a list that the host fills has a setter':
    'let found; Object.defineProperty(Array.prototype, 0, { set(v) { found = this; }, configurable: true }); return found;',
  'GHSA-47x8-96vw-5wg6: symbols of Node on what the host returns':
    'return [ctx, ctx.signal, host, new URL("http://a"), crypto, crypto.subtle].flatMap((o) => Object.getOwnPropertySymbols(o).map((k) => o[k])).find((v) => typeof v === "function" || typeof v === "object");',
  'GHSA-c4cf-2hgv-2qv6: an assignment with another receiver':
    'const receiver = {}; Reflect.set(host, "log", 1, receiver); Reflect.set(ctx, "cancel", 1, receiver); return receiver.log === 1 && host.log === 1 ? process : undefined;',
  'GHSA-9vg3-4rfj-wgcm, GHSA-cfcw-xp6x-25gj: a host object in an own proxy':
    'const p = new Proxy(host, {}); try { return p.log.constructor("return process")(); } catch (e) { return e.constructor.constructor; }',
  'GHSA-hw58-p9xv-2mjh, GHSA-76w7-j9cq-rx2j: then is read before it is taken':
    'let found; const p = crypto.subtle.digest("SHA-256", new Uint8Array(1)); Object.setPrototypeOf(p, new Proxy(Promise.prototype, { get(t, k, r) { found = r; return Reflect.get(t, k, r); } })); await p; return found.constructor.constructor;',
  'GHSA-f8gf-w286-fmq2: a subclass of Promise for a host function':
    'let found; class P extends Promise { constructor(f) { super((ok, no) => { found = [f, ok, no]; f(ok, no); }); } } await P.resolve(host.log("x")); return found[0];',
  'GHSA-27g9-p43v-cw3v: finally with a species':
    'let found; const p = crypto.subtle.digest("x", 1); p.constructor = { [Symbol.species]: function (f) { found = f; f(() => 0, () => 0); } }; p.catch(() => 0); try { p.finally(() => 0); } catch (e) { return e; } return found;',
  'GHSA-6j2x-vhqr-qr7q: promises of WebAssembly': 'return WebAssembly.promising(() => 0);',
  'GHSA-wjwh-qqvp-g4p4: a promise of another realm by await using':
    'let found; try { await using a = { [Symbol.asyncDispose]: () => ({ then(...r) { found = r; r[1](1); } }) }; } catch {} return found?.[0];',
  'GHSA-r4fx-v8hh-22mv: a finalizer without code below it':
    'let found; const r = new FinalizationRegistry(() => { try { null.x; } catch (e) { found = e; } }); for (let i = 0; i < 2000; i++) r.register({ i, l: new Array(99) }, i); await soon((ok) => setTimeout(ok, 80)); return found;',
  'GHSA-q3fm-4wcw-g57x: texts of a stack are built by replaced methods':
    'let found; const e = new Error("x"); e.name = { toString() { found = arguments; return "x"; } }; console.error(e); host.log(String(e.stack)); return found?.callee;',
  'GHSA-v27g-jcqj-v8rw: prepareStackTrace is left undefined':
    'Error.prepareStackTrace = undefined; const o = {}; Error.captureStackTrace(o); const found = o.stack; Error.prepareStackTrace = (e, c) => c; try { structuredClone(() => 0); } catch (e) { const c = e.stack; Error.prepareStackTrace = undefined; return Array.isArray(c) ? c[0].getFunction() ?? c[0].getThis() : undefined; }',
  'GHSA-55hx-c926-fr95, GHSA-35vh-489p-v7cx: Promise.try, any and race of host promises':
    'let found; const p = () => crypto.subtle.digest("x", 1); await Promise.try(p).catch((e) => { found = e; }); await Promise.any([p()]).catch((e) => { found = e.errors[0]; }); return found;',
  'GHSA-m283-3h24-438v: the host’s own subclasses of Error':
    'const made = []; for (const f of [() => null.x, () => nobody, () => new Array(-1), () => decodeURI("%"), () => (0, eval)("("), () => new URL("x"), () => atob("*")]) try { f(); } catch (e) { made.push(e); } return made.find((e) => !(e instanceof Error) || e.constructor.constructor !== Function);',
  'GHSA-x965-fc75-jpqh: an error that is both carried and wrapped':
    'let found; try { using a = { [Symbol.dispose]() { structuredClone(() => 0); } }; atob("*"); } catch (e) { found = [e.error, e.suppressed, e]; } return found.find((e) => e.constructor.constructor !== Function);',
  'GHSA-248r-7h7q-cr24, CVE-2026-45411: return of an asynchronous generator’s yield*':
    'let found; const g = (async function* () { try { yield* { [Symbol.asyncIterator]: () => ({ next: () => ({ value: 1, done: false }), return: () => ({ then(...a) { found = a; const deep = () => { try { deep(); } catch (e) { throw e; } }; deep(); } }) }) }; } catch (e) { found = e; } })(); await g.next(); await g.return({ then(ok) { ok(); } }).catch((e) => { found = e; }); return found;',
  'GHSA-2cm2-m3w5-gp2f, GHSA-wp5r-2gw5-m7q7: internal state by a bare name':
    'return typeof VM2_INTERNAL_STATE_DO_NOT_USE_OR_PROGRAM_WILL_FAIL !== "undefined" || [typeof $h͏_once, typeof compartment, typeof realm].find((t) => t !== "undefined") ? process : undefined;',
  'an asynchronous function’s error whose name is a symbol':
    'let found; (async () => { const e = new Error("x"); e.name = Symbol("x"); return e.stack; })().catch((e) => { found = e; }); await soon((ok) => setTimeout(ok, 5)); return found;',
  'CVE-2026-47140: a forgotten module':
    'return [..."process,inspector/promises,test,sqlite,module,diagnostics_channel".split(",")].map((n) => { try { return require(n); } catch { return null; } }).find((v) => v);',
};

const sandboxJs: Rows = {
  'CVE-2026-23830: the constructor of asynchronous functions':
    'return await (async () => 0).constructor("return typeof process === \\"object\\" ? process : undefined")();',
  'CVE-2026-23830: the constructor of generators, extended':
    'const G = (function* () {}).constructor; return new (class extends G {})("return process")().next().value;',
  'CVE-2026-23830: the constructor of asynchronous generators, by Reflect':
    'const G = (async function* () {}).constructor; return (await Reflect.construct(G, ["yield process"], Object)().next()).value;',
  'constructors of functions: a parameter that closes them':
    'const found = []; for (const f of [() => 0, async () => 0, function* () {}, async function* () {}]) for (const t of [["a) { return process } + function (", ""], ["/*", "*/) { return process"], ["a = (() => { throw process })()", ""], ["...a", "}); (function () { return process }"], ["a\\u2028", "return process"], ["`", "`) { return process"]]) try { let v = f.constructor(...t)(); v = v.next ? await v.next() : await v; found.push(v.value ?? v); } catch (e) { found.push(e); } return found.find((v) => v?.versions);',
  'constructors of functions: import() and new.target in their text':
    'const f = (async () => 0).constructor; try { return await f("return new.target ?? (await im\\\\u0070ort(\\"node:process\\"))")(); } catch (e) { return e; }',
  'constructors of functions: prototypes from new.target':
    'let found; const N = new Proxy(function () {}, { get(t, k, r) { found = r; return k === "prototype" ? null : undefined; } }); try { Reflect.construct((async () => 0).constructor, ["return 1"], N); } catch (e) { return e; } return found.constructor.constructor;',
  'constructors of functions: the error of their syntax':
    'try { (async () => 0).constructor("await = 1"); } catch (e) { return e; }',
  'constructors of functions at the end of the stack':
    'let found; const A = (async () => 0).constructor; const deep = () => { try { deep(); } catch { try { A("return 1"); } catch (e) { found ??= e; } } }; deep(); return found;',
  'constructors of functions: caller and arguments':
    'const d = Object.getOwnPropertyDescriptor(Function.prototype, "caller"); try { d.get.call(host.log); } catch (e) { return e; } return d.get.call(host.log);',
  'caller’s setter':
    'try { Object.getOwnPropertyDescriptor(Function.prototype, "arguments").set.call(() => 0, 1); } catch (e) { return e.constructor.constructor; }',
  'CVE-2026-25142: __lookupGetter__ reaches prototypes':
    'return ({}).__lookupGetter__("__proto__").call(host.log).constructor;',
  'CVE-2026-25520: lists of values of a constructor':
    'return Object.values({ a: host.log }).concat(Object.entries(globalThis).flat()).map((v) => v?.constructor?.constructor?.("return process")()).find((v) => v);',
  'CVE-2026-25586: hasOwnProperty is shadowed':
    'const o = { hasOwnProperty: () => true }; o.__proto__.polluted = 1; return ({}).polluted && process;',
  'CVE-2026-25587: Map.prototype.has is replaced':
    'let found; try { Map.prototype.has = function (k) { found = k; return true; }; } catch (e) { return e; } host.log("x"); return found;',
  'CVE-2026-25641: a key that changes between its check and its use':
    'let n = 0; const key = { toString: () => (n++ % 2 ? "constructor" : "name") }; return host.log[key][key]("return process")();',
  'CVE-2026-25881: an intrinsic’s prototype through a list':
    'const [p] = [Map.prototype]; try { p.has = 1; } catch {} return Map.prototype.has === 1 ? process : undefined;',
  'CVE-2025-34146: __proto__ of a function’s prototype':
    'try { (() => 0).__proto__.__proto__.polluted = 1; } catch {} return ({}).polluted && process;',
};

const others: Rows = {
  'realms-shim CVE-2021-23543: Error.prepareStackTrace through Reflect':
    'let found; Reflect.set(Error, "prepareStackTrace", (e, c) => { found = c; return ""; }); try { new URL("x"); } catch (e) { void e.stack; } Error.prepareStackTrace = undefined; return found?.map((f) => f.getThis() ?? f.getFunction()).find((v) => v);',
  'realms-shim CVE-2021-23594: a polluted prototype in the shim':
    'try { Object.prototype.get = () => globalThis; Object.prototype.value = 1; } catch {} return Object.getOwnPropertyDescriptor({ a: 1 }, "a").get?.();',
  'near-membrane: a target that stops being extensible':
    'const p = new Proxy(Object.preventExtensions({ a: host.log }), { ownKeys: () => ["b"] }); try { host.log("x", p); structuredClone(p); } catch (e) { return e; }',
  'safe-eval CVE-2022-25904: pollution by the arguments':
    'try { (function () { arguments.__proto__.__proto__.polluted = 1; })(); } catch {} return ({}).polluted && process;',
  'safe-eval CVE-2023-26122: a method of every object':
    'return [valueOf, toString, hasOwnProperty, isPrototypeOf, propertyIsEnumerable, toLocaleString, __defineGetter__, __lookupGetter__].map((f) => f.constructor("return process")()).find((v) => v);',
  'safe-eval CVE-2023-26122: valueOf() without an object':
    'try { (0, Object.prototype.valueOf)(); } catch (e) { return e.constructor.constructor; }',
  'sandbox: toLocaleString() without an object':
    'try { (0, Object.prototype.toLocaleString)(); } catch (e) { return e.constructor.constructor; }',
  'static-eval CVE-2017-16226: a constructor by a computed key':
    'return "".sub["const" + "ructor"]("return process")();',
  'notevil CVE-2021-23771: Function by concat of prototypes':
    'return [].concat.bind.apply(Function, [null, "return process"])()();',
  'isolated-vm CVE-2021-21413: a reference to the host':
    'return [ctx, ...Object.values(ctx)].map((v) => v?.derefInto?.() ?? v?.applySync?.(null, [])).find((v) => v);',
  'jailed functions: bind with a constructor':
    'return Reflect.construct(Function.prototype.bind, [null], class {})?.constructor;',
  'SES: an override of a getter’s receiver':
    'let found; const o = Object.create(Function.prototype); Reflect.set(o, "constructor", 1, new Proxy({}, { defineProperty(t, k, d) { found = d; return true; } })); return found?.constructor.constructor;',
  'SES: a proxy as the prototype of own objects':
    'let found; const o = Object.create(new Proxy(Object.prototype, { get(t, k, r) { found = r; return Reflect.get(t, k, r); } })); host.log("x", o); return found?.constructor.constructor;',
  'SES: the global lexical scope of a script':
    'return (0, eval)("let leak = 1; typeof leak") && Function("return typeof leak === \\"number\\" ? process : undefined")();',
  'SES: an inherited setter of a shared prototype':
    'let found; class A { static { Object.defineProperty(A.prototype, "toString", { set(v) { found = this; } }); } } new A().toString = 1; return found.constructor.constructor;',
};

export const advisories = [...seekRows(vm2), ...seekRows(sandboxJs), ...seekRows(others)];
