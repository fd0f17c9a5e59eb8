/**
 * Ways out through what plugins have of the language besides its core: accessors in the place of frozen properties, globals that
 * are made when they are read, `Function` with a `this`, undeclared names, and each global that `ses` withholds. The classes of
 * escape are those that vm2, SES, SandboxJS and isolated-vm fell to. Each row answers a value that may lead to Node.
 */
import { type Rows, seekRows } from './probe.ts';

/** Setters and getters that stand for frozen properties are functions of the program around the realm. */
const overrides: Rows = {
  'the getter of an overridable name': 'return Object.getOwnPropertyDescriptor(Object.prototype, "toString").get;',
  'the setter of an overridable name': 'return Object.getOwnPropertyDescriptor(Object.prototype, "toString").set;',
  "the setter's this is a proxy":
    'let found; const { set } = Object.getOwnPropertyDescriptor(Object.prototype, "valueOf"); const p = new Proxy({}, { defineProperty(t, k, d) { found = d; return true; } }); set.call(p, 1); return found.constructor;',
  'a proxy refuses the definition':
    'const { set } = Object.getOwnPropertyDescriptor(Object.prototype, "valueOf"); try { set.call(new Proxy({}, { defineProperty: () => false }), 1); } catch (e) { return e; }',
  "a proxy's descriptor trap throws in a setter":
    'let found; const { set } = Object.getOwnPropertyDescriptor(Array.prototype, "map"); try { set.call(new Proxy([], { getOwnPropertyDescriptor() { found = new Error("x"); throw found; } }), 1); } catch (e) { return e; }',
  'a setter at the end of the stack':
    'let found; const own = {}; const deep = () => { try { deep(); } catch { try { own.toString = 1; } catch (e) { found ??= e; } delete own.toString; } }; deep(); return found;',
  'a getter at the end of the stack':
    'let found; const deep = () => { try { deep(); } catch { try { [].map; } catch (e) { found ??= e; } } }; deep(); return found;',
  'a setter by Reflect.set with another receiver':
    'const o = {}; Reflect.set(Object.prototype, "constructor", 1, o); return o;',
  'the constructor is overridden for a host function':
    'const o = { message: "x" }; o.constructor = function (...a) { this.a = a; }; host.log(o, o); return o.a;',
  'toString is overridden for a host function':
    'let found; const o = {}; o.toString = function () { found = [this, arguments]; return "x"; }; new URL(o, "http://a"); return found[1];',
  'Symbol.toPrimitive is overridden for a timer':
    'let found; const o = { [Symbol.toPrimitive](...a) { found = [this, ...a]; return 1; } }; clearTimeout(setTimeout(() => 0, o)); return found[1];',
  '__lookupGetter__ of an overridable name': 'return ({}).__lookupGetter__("toString");',
  '__defineGetter__ on what host functions read':
    'let found; ({}).__defineGetter__.call(globalThis, "process", function () { found = this; }); host.log("x"); return found === globalThis ? undefined : found;',
};

/** `__proto__` is an accessor again. */
const prototypes: Rows = {
  '__proto__ of the global object': 'return globalThis.__proto__;',
  '__proto__ of the prototypes, to the end': 'let v = host.log; while (v.__proto__) v = v.__proto__; return v;',
  "the setter's function": 'return Object.getOwnPropertyDescriptor(Object.prototype, "__proto__").set;',
  '__proto__ of a shared object is set': 'host.log.__proto__ = { process: 1 }; return host.log;',
  '__proto__ of the global object is set':
    'const before = globalThis.__proto__; try { globalThis.__proto__ = new Proxy({}, { get: (t, k, r) => { found = r; } }); var found; try { nobody; } catch {} } finally { Object.setPrototypeOf(globalThis, before); } return found === globalThis ? undefined : found;',
  'a parsed __proto__ reaches the host':
    'const o = JSON.parse(\'{"__proto__":{"data":{"process":1}}}\'); host.log("x", o); return structuredClone(o).process;',
  'a __proto__ assigned by merge reaches the host':
    'const merge = (a, b) => { for (const k in b) a[k] = typeof b[k] === "object" ? merge(a[k] ?? {}, b[k]) : b[k]; return a; }; merge({}, JSON.parse(\'{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}\')); return host.settings.polluted && host.log;',
};

/** `Function` gives the realm’s global object, and has one constructor. */
const functions: Rows = {
  "Function('return this')": "return Function('return this')();",
  'this of a function of text, called with null': "return Function('return this').call(null);",
  'this of a nested function of text': "return Function('return (function () { return this; })()')();",
  'this of an arrow in a function of text': "return Function('return (() => this)()')();",
  'the constructor of a function of text': "return Function('return this.constructor')();",
  'the apply trap of a function of text': "return Reflect.apply(Function('return this'), undefined, []);",
  'a parameter that is an object':
    "let n = 0; const sly = { toString: () => (n++ ? 'a = (() => { return process })()' : 'a') }; return Function(sly, 'return a')();",
  'a body that is an object':
    "let n = 0; const sly = { toString: () => (n++ ? '}); return process; (() => {' : 'return this') }; return Function(sly)();",
  'Array.prototype.pop is overridden':
    'const list = []; list.pop = () => "return process"; return Function(...list, "return 1")();',
  'the constructor of an async function of text': "return (async () => 0).constructor('return this')();",
  'the constructor of a generator of text': "return (function* () {}).constructor('return this')().next().value;",
  'AsyncFunction by its prototype': "return Object.getPrototypeOf(async () => 0).constructor('return process')();",
  'eval at the end of the stack':
    'let found; const deep = () => { try { deep(); } catch { try { found ??= (0, eval)("eval"); } catch {} } }; deep(); const e = (0, eval)("eval"); return found && found !== e ? found("process") : undefined;',
  'Function at the end of the stack':
    'let found; const deep = () => { try { deep(); } catch { try { found ??= Function("return this")(); } catch {} } }; deep(); return found === globalThis ? undefined : found;',
};

/** Names that the realm does not declare are looked up at the end of all scopes. */
const scopes: Rows = {
  'a name of the scope around the realm': 'return evalScope;',
  scopeTerminator: 'return scopeTerminator;',
  moduleLexicals: 'return moduleLexicals;',
  'a name of the child program': 'return realm;',
  'exports of the child program': 'return module;',
  'a name of Node that is made late': 'return localStorage;',
  navigator: 'return navigator;',
  'an assignment to a name of Node': 'process = { versions: 1 }; return process;',
  'delete of the own global leads to another':
    'delete globalThis.Array; try { return Array; } finally { globalThis.Array = [].constructor; }',
  'typeof of a name of Node': 'if (typeof Buffer !== "undefined") return Buffer;',
  'unscopables of a shared prototype':
    'Object.defineProperty(globalThis, Symbol.unscopables, { value: new Proxy({}, { get: () => true }), configurable: true }); return process;',
  'a prototype of the global object that has every name':
    'const before = Object.getPrototypeOf(globalThis); let found; Object.setPrototypeOf(globalThis, new Proxy({}, { has: () => false, get: (t, k, r) => r })); try { found = process; } finally { Object.setPrototypeOf(globalThis, before); } return found;',
};

/** Globals that ses withholds. Their callbacks run without code of the plugin below them. */
const globals: Rows = {
  'this of a finalizer':
    'const found = []; const r = new FinalizationRegistry(function (...a) { found.push(this, ...a); }); for (let i = 0; i < 2000; i++) r.register({ i, l: new Array(100) }, { i }); await soon((ok) => setTimeout(ok, 100)); return found[0];',
  'a finalizer that is a proxy':
    'const found = []; const r = new FinalizationRegistry(new Proxy(function () {}, { apply: (t, self, a) => { found.push(self ?? a); } })); for (let i = 0; i < 2000; i++) r.register({ i, l: new Array(100) }, i); await soon((ok) => setTimeout(ok, 100)); return found[0];',
  'a finalizer that throws':
    'const r = new FinalizationRegistry(() => { throw Object.assign(new Error("x"), { toString() { return "x"; } }); }); for (let i = 0; i < 99; i++) r.register({}, i); await soon((ok) => setTimeout(ok, 20));',
  'a weak reference to a host function': 'return new WeakRef(host.log).deref();',
  'a weak map with a host function as key': 'return [...new Map([[host.log, 1]]).keys()][0];',
  'this of a disposer': 'let found; { using d = { [Symbol.dispose]() { found = arguments.callee; } }; } return found;',
  'this of a deferred disposer':
    'let found; const s = new DisposableStack(); s.defer(function () { found = this; }); s.dispose(); return found;',
  'an adopted value':
    'let found; const s = new DisposableStack(); s.adopt(host, function (v) { found = [this, v]; }); s.dispose(); return found[0];',
  'an asynchronous disposer':
    'let found; const s = new AsyncDisposableStack(); s.defer(async function () { found = this; }); await s.disposeAsync(); return found;',
  'the error of two disposers':
    'try { const s = new DisposableStack(); s.defer(() => { null.x; }); s.defer(() => { structuredClone(() => 0); }); s.dispose(); } catch (e) { return [e, e.error, e.suppressed].map((v) => v.constructor).at(-1); }',
  'the constructor above SuppressedError': 'return Object.getPrototypeOf(SuppressedError).prepareStackTrace;',
  'frames by the constructor above SuppressedError':
    'const E = Object.getPrototypeOf(SuppressedError); E.prepareStackTrace = (e, c) => c; return new Error().stack[0].getThis();',
  'frames by the constructor above DOMException':
    'const E = Object.getPrototypeOf(DOMException); E.prepareStackTrace = (e, c) => c; try { atob("*"); } catch (e) { return e.stack[0].getFunction(); }',
  'Error.isError of a host error':
    'try { atob("*"); } catch (e) { if (Error.isError(e)) return e.constructor.constructor; }',
  'RegExp.escape of an object':
    'let found; try { RegExp.escape({ toString() { found = this; return "x"; } }); } catch (e) { return e; } return found;',
  'the getter of a lazy global': 'return Object.getOwnPropertyDescriptor(globalThis, "Headers")?.get;',
  'the getter of Temporal': 'return Object.getOwnPropertyDescriptor(globalThis, "Temporal")?.get;',
  'the getter of Intl, on another object':
    'const d = Object.getOwnPropertyDescriptor(globalThis, "Intl"); return d?.get ? d.get.call({}).constructor.constructor : undefined;',
  'a lazy global at the end of the stack':
    'let found; const deep = () => { try { deep(); } catch { try { Temporal; } catch (e) { found ??= e; } } }; deep(); return found;',
  'Temporal.Now': 'return Temporal.Now.instant.constructor;',
  "a calendar's fields":
    'let found; try { Temporal.PlainDate.from({ get year() { found = this; return 2026; }, month: 1, day: 1, calendar: { toString() { return "iso8601"; } } }); } catch (e) { return e; } return found;',
  'a time zone that is an object':
    'try { Temporal.Now.zonedDateTimeISO({ toString: () => "UTC" }); } catch (e) { return e; }',
  'toTemporalInstant of no date': 'try { Date.prototype.toTemporalInstant.call({}); } catch (e) { return e; }',
  'locales that are a proxy':
    'let found; try { new Intl.NumberFormat(new Proxy(["en"], { get(t, k, r) { found = r; return t[k]; } })); } catch (e) { return e; } return found;',
  'options of a formatter':
    'let found; new Intl.DateTimeFormat("en", { get timeZone() { found = arguments; return "UTC"; } }); return found[0];',
  'a legacy formatter’s constructor':
    'const o = Intl.NumberFormat.call(Object.create(Intl.NumberFormat.prototype)); return Object.getOwnPropertySymbols(o).map((s) => o[s])[0];',
  'the segments of a proxy':
    'try { Intl.Segmenter.prototype.segment.call(new Proxy(new Intl.Segmenter(), {}), "a"); } catch (e) { return e; }',
  'a wrapped iterator':
    'let found; const i = Iterator.from({ next() { found = this; return { done: true }; } }); i.next(); return found;',
  'return of a wrapped iterator':
    'let found; const i = Iterator.from({ next: () => ({ done: true }), return(...a) { found = a; return {}; } }); i.return(); return found[0];',
  'an iterator of a host object': 'return new URLSearchParams("a=b").entries().map((v) => v).constructor;',
  'floating numbers over bytes of the host':
    'const b = crypto.getRandomValues(new Uint8Array(8)); return new Float64Array(b.buffer).constructor.constructor;',
  'bytes beside those of the host':
    'const text = new TextDecoder("latin1").decode(new Uint8Array(new TextEncoder().encode("x").buffer)); return text.length > 1 ? { versions: { node: text } } : undefined;',
  'self and global': 'return [self, global].find((v) => v !== globalThis) ?? self.process;',
};

export const wholeLanguage = [
  ...seekRows(overrides),
  ...seekRows(prototypes),
  ...seekRows(functions),
  ...seekRows(scopes),
  ...seekRows(globals),
];
