/**
 * Values that cross the membrane between a plugin and its host program: errors, promises, proxies, prototypes. The classes of escape
 * that vm2 fell to, by their CVE where there is one. Each row answers a value that may lead to Node.
 */
import { type Rows, seekRows } from './probe.ts';

const vm2: Rows = {
  'CVE-2019-10761: the error of a stack overflow in a host function':
    'let found; const deep = () => { try { host.log("x"); deep(); } catch (e) { found ??= e; throw e; } }; try { deep(); } catch (e) { found ??= e; } return found;',
  'CVE-2019-10761: the same in structuredClone':
    'let found; const deep = () => { try { deep(); } catch { try { structuredClone({}); } catch (e) { found ??= e; } } }; deep(); return found;',
  'CVE-2021-23449: import() in a function of text': 'return (0, eval)(\'import("x")\').catch((e) => e);',
  'CVE-2021-23555: the frames of a host error':
    'let frames; Error.prepareStackTrace = (e, calls) => { frames = calls; return ""; }; try { structuredClone(() => 0); } catch (e) { void e.stack; } return frames.map((f) => f.getThis() ?? f.getFunction()).find((v) => v);',
  'CVE-2022-25893: WeakMap.prototype.set is replaced':
    'let found; WeakMap.prototype.set = function (key, value) { found = value; return this; }; await host.log("x"); try { structuredClone(() => 0); } catch {} return found;',
  'CVE-2022-36067: Error is replaced by a plain object':
    'let found; globalThis.Error = { prepareStackTrace: (e, calls) => { found = calls; return ""; } }; try { null.x; } catch (e) { void e.stack; } try { new URL("x"); } catch (e) { void e.stack; } return found.map((f) => f.getThis()).find((v) => v);',
  'CVE-2023-29017: an error in an asynchronous function':
    'let found; Error.prepareStackTrace = (e, calls) => { found = calls; return ""; }; await (async () => { const e = new Error(); return e.stack; })(); return found.map((f) => f.getThis() ?? f.getFunction()).find((v) => v);',
  'CVE-2023-29017: an error nobody waits for':
    'let found; Error.prepareStackTrace = (e, calls) => { found ??= calls; return ""; }; (async () => { throw new Error(); })().catch((e) => e.stack); await soon((ok) => setTimeout(ok, 5)); return found.map((f) => f.getThis()).find((v) => v);',
  'CVE-2023-29199: an exception behind transformed code':
    'let found; const f = () => { try { structuredClone(() => 0); } catch (catch_) { found = catch_; } }; f(); return found;',
  'CVE-2023-30547: a proxy whose prototype trap throws':
    'const p = new Proxy({}, { getPrototypeOf() { const deep = () => { new Error().stack; deep(); }; deep(); } }); try { throw p; } catch ({ constructor: c }) { return c.constructor; }',
  'CVE-2023-32313: inspect.custom gets the inspect function':
    'let found; const o = { [Symbol.for("nodejs.util.inspect.custom")]: (depth, options, inspect) => { found = inspect ?? options; return ""; } }; console.log(o); host.log("x", o); return found;',
  'CVE-2023-32314: the error of a proxied function':
    'const p = new Proxy(class {}, { apply() { return 1; } }); try { p(); } catch (e) { return e; }',
  'CVE-2023-37466: a promise of another species':
    'let found; const p = (async () => { throw new Error(); })(); p.constructor = { [Symbol.species]: class { constructor(work) { work((v) => (found ??= v), (v) => (found ??= v)); } } }; p.then(() => 0, () => 0); await null; return found;',
  'CVE-2023-37903: inspect.custom on an argument of a host function':
    'let found; const o = { toString: undefined, [Symbol.for("nodejs.util.inspect.custom")](depth, option, inspect) { found = inspect; } }; try { new URL(o); } catch {} try { atob(o); } catch {} return found;',
  'CVE-2026-22709: the promise of an asynchronous function':
    'let found; const then = Promise.prototype.then; Promise.prototype.then = function (a, b) { found ??= this; return then.call(this, a, b); }; try { await (async () => crypto.subtle.digest("x", new Uint8Array(1)))(); } catch (e) { found ??= e; } return found;',
};

const promises: Rows = {
  'then is replaced':
    'let found; Promise.prototype.then = function (...a) { found = a[0]; return this; }; await soon((ok) => setTimeout(ok, 5)); return found;',
  'catch is replaced':
    'let found; Promise.prototype.catch = function (f) { found = f; return this; }; host.log("x"); await null; return found;',
  'finally is replaced':
    'let found; Promise.prototype.finally = function (f) { found = f; return this; }; await null; return found;',
  'Promise.resolve is replaced':
    'let found; Promise.resolve = function (v) { found = this; return v; }; await null; return found === Promise ? undefined : found;',
  'Promise is replaced':
    'let found; globalThis.Promise = class { constructor(work) { found = work; } }; await crypto.subtle.digest("SHA-256", new Uint8Array(1)); return found;',
  'the species of Promise':
    'let found; Object.defineProperty(Promise, Symbol.species, { get() { return class { constructor(w) { found = w; } }; } }); await null; return found;',
  'the constructor of a promise':
    'let found; const p = crypto.subtle.digest("SHA-256", new Uint8Array(1)); Object.defineProperty(p, "constructor", { get() { found = this; } }); await p; return found === p ? undefined : found;',
  'a thenable gets functions': 'return await new Promise((ok) => Promise.resolve({ then(a, b) { ok([a]); } }));',
  'a thenable of a callable proxy':
    'let found; await { then: new Proxy(function () {}, { apply(t, it, args) { found = args[0]; args[0](); } }) }; return found;',
  'an async iterator':
    'let found; for await (const v of { [Symbol.asyncIterator]() { found = this; return { next: async () => ({ done: true }) }; } }); return found;',
  'return of an async generator':
    'async function* g() { yield 1; } const it = g(); await it.next(); return await it.return({ then(ok) { ok(ok); } });',
  'throw into an async generator':
    'async function* g() { try { yield 1; } catch (e) { yield e; } } const it = g(); await it.next(); return (await it.throw(new Error())).value;',
  'Promise.try': 'return await Promise.try(function () { return this; });',
  'Promise.withResolvers': 'return Promise.withResolvers.call(function (work) { work(() => 0, () => 0); }).promise;',
  'Array.fromAsync': 'return await Array.fromAsync.call(function () { return {}; }, [1]);',
};

const errors: Rows = {
  'prepareStackTrace gets this of a frame':
    'Error.prepareStackTrace = (e, c) => c; return new Error().stack.map((f) => f.getThis()).find((v) => v);',
  'prepareStackTrace gets a function of a frame':
    'Error.prepareStackTrace = (e, c) => c; return new Error().stack.map((f) => f.getFunction()).find((v) => v);',
  'prepareStackTrace is defined':
    'Object.defineProperty(Error, "prepareStackTrace", { value: (e, c) => c }); return new Error().stack[0].getThis();',
  'prepareStackTrace of TypeError':
    'TypeError.prepareStackTrace = (e, c) => c; try { null.x; } catch (e) { return e.stack[0].getThis(); }',
  'prepareStackTrace by the prototype':
    'Object.prototype.prepareStackTrace = (e, c) => c; return new Error().stack[0].getThis();',
  captureStackTrace: 'const o = {}; Error.captureStackTrace(o); return o.stack;',
  'captureStackTrace with a getter':
    'let found; const o = {}; Object.defineProperty(o, "stack", { set(v) { found = v; } }); Error.captureStackTrace(o); return found;',
  'an endless stackTraceLimit':
    'Error.stackTraceLimit = Infinity; Error.prepareStackTrace = (e, c) => c.at(-1); return new Error().stack.getThis();',
  'the position of a frame':
    'Error.prepareStackTrace = (e, c) => c.map((f) => f.getEvalOrigin()); const s = new Error().stack; return Array.isArray(s) ? s : undefined;',
  'the error of a bad URL': 'try { new URL("x"); } catch (e) { return e; }',
  'the input of a bad URL error': 'try { new URL("x"); } catch (e) { return e.input.constructor.constructor; }',
  'the error of a bad atob': 'try { atob("*"); } catch (e) { return e; }',
  'the prototype of a DOMException':
    'try { atob("*"); } catch (e) { return Object.getPrototypeOf(Object.getPrototypeOf(e)).constructor.constructor; }',
  'the error of a clone': 'try { structuredClone(Symbol()); } catch (e) { return e; }',
  'the error of a bad encoding': 'try { new TextDecoder("x"); } catch (e) { return e; }',
  'the error of a fatal decoding':
    'try { new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([255])); } catch (e) { return e; }',
  'the error of too much randomness': 'try { crypto.getRandomValues(new Uint8Array(1e6)); } catch (e) { return e; }',
  'the error of a bad timer': 'try { setTimeout(1); } catch (e) { return e; }',
  'the error of a bad microtask': 'try { queueMicrotask(1); } catch (e) { return e; }',
  'the error of a refused host call': 'try { await host.secrets.get("x"); } catch (e) { return e; }',
  'the cause of an error': 'try { new URL("x"); } catch (e) { return e.cause; }',
  'an aggregate of errors': 'return await Promise.any([crypto.subtle.digest("x", 1)]).catch((e) => e.errors[0]);',
  'a suppressed error':
    'try { using a = { [Symbol.dispose]() { atob("*"); } }; throw 1; } catch (e) { return e.error; }',
  'an error thrown by toString of an argument': 'try { new URL({ toString() { null.x; } }); } catch (e) { return e; }',
  'a stack overflow in a regular expression':
    'try { new RegExp("(".repeat(1e5) + ")".repeat(1e5)); } catch (e) { return e; }',
  'a stack overflow in JSON':
    'let a = []; for (let i = 0; i < 1e4; i += 1) a = [a]; try { JSON.stringify(a); } catch (e) { return e; }',
  'a stack overflow in a logged value':
    'let a = []; for (let i = 0; i < 1e4; i += 1) a = [a]; try { host.log("x", a); } catch (e) { return e; }',
  'a bad array length': 'try { new Array(-1); } catch (e) { return e; }',
};

const prototypes: Rows = {
  'Object.prototype is polluted':
    'let found; Object.defineProperty(Object.prototype, "method", { set() { found = this; }, configurable: true }); host.log("x"); return found;',
  'Object.prototype has a setter for id':
    'let found; Object.defineProperty(Object.prototype, "id", { set() { found = this; }, get() { found = this; }, configurable: true }); try { await host.secrets.get("x"); } catch {} return found;',
  'Object.prototype.toJSON':
    'let found; Object.prototype.toJSON = function () { found = this; return {}; }; host.log("x"); return found;',
  'Array.prototype has a setter':
    'let found; Object.defineProperty(Array.prototype, 0, { set(v) { found = v; }, configurable: true }); host.log("x", [1]); return found;',
  'Array.prototype.push is replaced':
    'let found; Array.prototype.push = function (v) { found = v; return 1; }; setTimeout(() => 0, 1); host.log("x"); return found;',
  'Function.prototype.call is replaced':
    'let found; Function.prototype.call = function () { found = this; }; host.log("x"); return found;',
  'Function.prototype.apply is replaced':
    'let found; Function.prototype.apply = function () { found = this; }; setTimeout(() => 0, 0); await null; return found;',
  'Function.prototype.bind is replaced':
    'let found; Function.prototype.bind = function () { found = this; return this; }; host.log("x"); return found;',
  'Symbol.hasInstance is replaced':
    'let found; Object.defineProperty(Function.prototype, Symbol.hasInstance, { value() { found = this; return true; } }); host.log("x", {}); return found;',
  'Map.prototype.get is replaced':
    'let found; Map.prototype.get = function () { found = this; }; await host.log("x"); return found;',
  'Reflect.apply is replaced': 'let found; Reflect.apply = (f) => { found = f; }; host.log("x"); return found;',
  'JSON.stringify is replaced':
    'let found; JSON.stringify = (v) => { found = v; return "{}"; }; host.log("x", {}); return found;',
  'String.prototype is replaced':
    'let found; String.prototype.slice = function () { found = this; return "x"; }; host.log("x"); return found && Object.getPrototypeOf(found) !== String.prototype ? found : undefined;',
  'RegExp.prototype.exec is replaced':
    'let found; RegExp.prototype.exec = function () { found = this; return null; }; host.log("x"); new URL("http://a"); return found;',
  'the iterator of arrays is replaced':
    'let found; Array.prototype[Symbol.iterator] = function () { found = this; return { next: () => ({ done: true }) }; }; console.log("x"); return found;',
  '__proto__ of an object': 'return ({}).__proto__.constructor.constructor;',
  __lookupGetter__: 'return ({}).__lookupGetter__("__proto__").constructor;',
  '__defineSetter__ on the global object':
    'let found; globalThis.__defineSetter__("x", function () { found = this; }); x = 1; return found;',
  'setPrototypeOf of the global object':
    'Object.setPrototypeOf(globalThis, new Proxy({}, { get: (t, k, r) => r })); return globalThis.anything;',
  'setPrototypeOf of host.log': 'Object.setPrototypeOf(host.log, null); return host.log.constructor;',
  'defineProperty on host': 'Object.defineProperty(host, "x", { value: 1 }); return host.x && process;',
  'a species array':
    'class C extends Array { static get [Symbol.species]() { return Function; } } return new C("return process").concat([])();',
  'a species of a typed array':
    'class C extends Uint8Array { static get [Symbol.species]() { return function (n) { return new Uint8Array(n); }; } } return new C(1).map((x) => x).constructor.constructor;',
  'a species of ArrayBuffer':
    'const b = new ArrayBuffer(8); b.constructor = { [Symbol.species]: Function }; return b.slice(0);',
  'a getter on an argument':
    'let found; host.log("x", { get a() { found = this.constructor.constructor; return 1; } }); return found;',
  'a proxy as an argument':
    'let found; host.log("x", new Proxy({}, { ownKeys(t) { found = this; return []; }, get(t, k, r) { found ??= r; } })); return found;',
  'a proxy as a message':
    'let found; host.log(new Proxy({}, { get(t, k, r) { found ??= this; return undefined; } })); return found;',
  'toPrimitive of an argument':
    'let found; new URL({ [Symbol.toPrimitive](hint) { found = arguments; return "http://a"; } }); return found;',
  'a proxied function for a timer':
    'let found; setTimeout(new Proxy(() => 0, { apply(t, it, args) { found = it ?? args; } }), 0); await soon((ok) => setTimeout(ok, 10)); return found;',
  'a proxied function for a microtask':
    'let found; queueMicrotask(new Proxy(() => 0, { apply(t, it, args) { found = it ?? args; } })); await null; await null; return found;',
  'a private field on a frozen object':
    'class Base { constructor(o) { return o; } } class Stamp extends Base { #x = 1; static read(o) { return o.#x; } } new Stamp(host); return Stamp.read(host) === 1 ? host.constructor.constructor : 0;',
  'WebAssembly.JSTag': 'return WebAssembly.JSTag.constructor.constructor;',
  'WebAssembly from bytes':
    'return new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])).constructor.constructor;',
  'Symbol.for of Node':
    'return globalThis[Symbol.for("nodejs.rejection")] ?? host[Symbol.for("nodejs.util.promisify.custom")];',
  'own symbols of host': 'return Object.getOwnPropertySymbols(host).map((s) => host[s])[0];',
};

export const membrane = [...seekRows(vm2), ...seekRows(promises), ...seekRows(errors), ...seekRows(prototypes)];
