/**
 * Ways out through the web's classes and what formats or copies values. Their programs run among the plugin's own intrinsics, so
 * each row gives them objects that look back: getters, proxies, thenables, species, subclasses. Each row answers a value that may
 * lead to Node.
 */
import { type Rows, seekRows } from './probe.ts';

const streams: Rows = {
  'this of a source': 'let found; new ReadableStream({ start() { found = this; } }); return found;',
  'the controller of a stream': 'let found; new ReadableStream({ start(c) { found = c; } }); return found.constructor;',
  'the controller made by its class': 'return new ReadableStreamDefaultController();',
  'a byte controller': 'let found; new ReadableStream({ type: "bytes", start(c) { found = c; } }); return found;',
  'the request of a reader with its own buffer':
    'let found; const s = new ReadableStream({ type: "bytes", pull(c) { found = c.byobRequest; } }); await s.getReader({ mode: "byob" }).read(new Uint8Array(1)); return found;',
  'a source with a getter':
    'let found; try { new ReadableStream({ get start() { found = this; throw found; } }); } catch (e) { return e; }',
  'a source that is a proxy':
    'const seen = []; try { new ReadableStream(new Proxy({}, { get(t, k, r) { seen.push(r, k); return undefined; } })); } catch (e) { seen.push(e); } return seen[0]?.constructor;',
  'arguments of a strategy':
    'let found; new ReadableStream({ start(c) { c.enqueue(1); } }, { size: function (...a) { found = [this, ...a]; return 1; } }); return found?.[0];',
  'a strategy that throws':
    'let found; try { new ReadableStream({ start(c) { try { c.enqueue(1); } catch (e) { found = e; } } }, { size() { null.x; } }); } catch (e) { found ??= e; } return found;',
  'a strategy that returns an object':
    'let found; new ReadableStream({ start(c) { try { c.enqueue(1); } catch (e) { found = e; } } }, { size: () => ({ valueOf() { found = this; return 1; } }) }); return found;',
  'a highWaterMark that looks back':
    'let found; new ReadableStream({}, { highWaterMark: { valueOf() { found = arguments; return 1; } } }); return found;',
  'the result of a read':
    'const s = new ReadableStream({ start(c) { c.enqueue(1); } }); return (await s.getReader().read()).constructor;',
  'a then on the result of a read':
    'let found; Object.defineProperty(Object.prototype, "then", { get() { found = this; }, configurable: true }); const s = new ReadableStream({ start(c) { c.enqueue(1); } }); await s.getReader().read(); return found;',
  'a chunk that is thenable':
    'let found; const s = new ReadableStream({ start(c) { c.enqueue({ then(...a) { found = [this, ...a]; a[0](1); } }); } }); await s.getReader().read(); return found?.[1];',
  'a pull that answers a thenable':
    'let found; const s = new ReadableStream({ pull: () => ({ then(...a) { found = a; } }) }); s.getReader().read(); await null; await null; return found?.[0];',
  'the resolvers that a thenable gets':
    'let found; const s = new ReadableStream({ cancel: () => ({ then(...a) { found = a; a[0](); } }) }); await s.cancel(); return found?.[0].constructor;',
  'the closed promise of a reader':
    'return new ReadableStream({ start(c) { c.close(); } }).getReader().closed.constructor;',
  'the error of a locked stream':
    'const s = new ReadableStream(); s.getReader(); try { s.getReader(); } catch (e) { return e; }',
  'the error of a method on another object':
    'try { ReadableStream.prototype.getReader.call({}); } catch (e) { return e; }',
  'a method on a proxy of a stream':
    'try { ReadableStream.prototype.getReader.call(new Proxy(new ReadableStream(), {})); } catch (e) { return e; }',
  'a stream of an iterator':
    'let found; const s = ReadableStream.from({ [Symbol.iterator]() { found = this; return { next: (...a) => { found = a; return { done: true }; } }; } }); await s.getReader().read(); return found[0];',
  'a stream of an asynchronous iterator':
    'let found; const s = ReadableStream.from({ [Symbol.asyncIterator]() { return { next() { found = this; return { then(...a) { found = a; a[0]({ done: true }); } }; } }; } }); await s.getReader().read(); return found[0];',
  'the iterator of a stream':
    'const s = new ReadableStream({ start(c) { c.close(); } }); return s[Symbol.asyncIterator]().next.constructor;',
  'the prototype of a stream’s iterator':
    'return Object.getPrototypeOf(new ReadableStream()[Symbol.asyncIterator]()).return.constructor;',
  'return of a stream’s iterator':
    'const i = new ReadableStream()[Symbol.asyncIterator](); return await i.return({ then(...a) { a[0](a); } });',
  'tee with chunks that look back':
    'let found; const s = new ReadableStream({ start(c) { c.enqueue({ get constructor() { found = this; } }); c.close(); } }); const [a] = s.tee(); await a.getReader().read(); return found;',
  'pipeTo another realm’s stream':
    'let found; const w = Object.create(WritableStream.prototype); try { await new ReadableStream().pipeTo(w); } catch (e) { return e; }',
  'pipeThrough a lookalike':
    'let found; try { new ReadableStream().pipeThrough({ get readable() { found = this; return {}; }, get writable() { found = arguments; return {}; } }); } catch (e) { return found?.callee ?? e; }',
  'options of pipeTo':
    'let found; try { await new ReadableStream({ start(c) { c.close(); } }).pipeTo(new WritableStream(), { get signal() { found = this; return { aborted: true, addEventListener(...a) { found = a; } }; } }); } catch (e) { found ??= e; } return Array.isArray(found) ? found[1] : undefined;',
  'a lookalike of a signal that listens':
    'let found; const signal = Object.setPrototypeOf({ addEventListener(...a) { found = a; } }, AbortSignal.prototype); try { await new ReadableStream().pipeTo(new WritableStream(), { signal }); } catch (e) { found ??= e; } return found?.[1];',
  'this of a sink':
    'let found; const w = new WritableStream({ write(...a) { found = [this, ...a]; } }).getWriter(); await w.write(1); return found[2];',
  'the signal of a sink':
    'let found; const w = new WritableStream({ start(c) { found = c.signal; } }); return found?.constructor.constructor;',
  'the error of an aborted sink':
    'const w = new WritableStream().getWriter(); w.abort(); return await w.write(1).catch((e) => e);',
  'the desired size of a lookalike':
    'return Object.getOwnPropertyDescriptor(WritableStreamDefaultWriter.prototype, "desiredSize")?.get.call({});',
  'this of a transformer':
    'let found; const t = new TransformStream({ transform(...a) { found = [this, ...a]; } }); t.readable.getReader().read(); await t.writable.getWriter().write(1); return found?.[2];',
  'a transform that terminates':
    'let found; const t = new TransformStream({ transform(x, c) { c.terminate(); } }); const w = t.writable.getWriter(); t.readable.getReader().read(); return await w.write(1).then(() => w.closed).catch((e) => e);',
  'text of an object':
    'let found; const t = new TextEncoderStream(); t.writable.getWriter().write({ toString() { found = arguments; return "x"; } }); await t.readable.getReader().read(); return found;',
  'the decoder behind a stream':
    'const t = new TextDecoderStream(); return Reflect.ownKeys(t).map((k) => t[k]).find((v) => v && typeof v === "object" && !(v instanceof ReadableStream) && !(v instanceof WritableStream));',
  'own symbols of a stream':
    'const s = new ReadableStream(); return Object.getOwnPropertySymbols(s).map((k) => s[k])[0];',
  'private state stamped on a frozen class':
    'class Base { constructor(o) { return o; } } class Stamp extends Base { #x = 1; static has(o) { return #x in o; } } new Stamp(ReadableStream); return Stamp.has(ReadableStream) ? ReadableStream.constructor : undefined;',
  'a subclass with its own species':
    'class S extends ReadableStream { static get [Symbol.species]() { return Function; } } return new S().tee()[0].constructor.constructor;',
};

const bodies: Rows = {
  'parts of a Blob that look back':
    'let found; new Blob([{ toString() { found = arguments; return "x"; } }]); return found;',
  'a list of parts that is a proxy':
    'let found; try { new Blob(new Proxy([1], { get(t, k, r) { found = r; return Reflect.get(t, k, r); } })); } catch (e) { return e; } return found;',
  'an iterator of parts':
    'let found; new Blob({ [Symbol.iterator]: function* () { found = yield "x"; } }); return found;',
  'options of a Blob':
    'let found; new Blob([], { get type() { found = this.constructor; return "x"; } }); return found;',
  'bytes of a Blob': 'return (await new Blob(["x"]).arrayBuffer()).constructor.constructor;',
  'bytes beside those of a Blob':
    'const b = await new Blob(["x"]).arrayBuffer(); return b.byteLength > 1 ? { versions: { node: "pool" } } : undefined;',
  'the stream of a Blob': 'return new Blob(["x"]).stream().constructor;',
  'a slice of a lookalike':
    'try { return Blob.prototype.slice.call(Object.create(Blob.prototype), 0); } catch (e) { return e; }',
  'a Blob of a typed array with a species':
    'class B extends Uint8Array { static get [Symbol.species]() { return Function; } } return await new Blob([new B(3)]).text();',
  'a Blob of a resizable buffer that shrinks':
    'const b = new ArrayBuffer(8, { maxByteLength: 16 }); const v = new Uint8Array(b); const blob = new Blob([{ toString() { b.resize(0); return ""; } }, v]); const t = await blob.text(); return t.length > 8 ? { versions: { node: t } } : undefined;',
  'a Blob of a detached buffer':
    'const b = new ArrayBuffer(8); const v = new Uint8Array(b); b.transfer(); try { return await new Blob([v]).text(); } catch (e) { return e; }',
  'the name of a File': 'let found; new File([], { toString() { found = arguments; return "x"; } }); return found;',
  'a form’s values that look back':
    'let found; const f = new FormData(); f.append({ toString() { found = arguments; return "a"; } }, { toString: () => "b" }); return found;',
  'a form’s iterator':
    'const f = new FormData(); f.append("a", "b"); return Object.getPrototypeOf(f.entries()).next.constructor;',
  'this of a form’s forEach':
    'let found; const f = new FormData(); f.append("a", "b"); f.forEach(function (...a) { found = [this, ...a]; }); return found[0];',
  'a form with the name __proto__':
    'const f = new FormData(); f.append("__proto__", new Blob(["x"])); return Object.fromEntries(f).process ?? Object.getPrototypeOf(f.get("__proto__")).constructor.constructor;',
  'a form from a body':
    'const body = "--x\\r\\nContent-Disposition: form-data; name=\\"__proto__\\"\\r\\n\\r\\n1\\r\\n--x--\\r\\n"; const f = await new Response(body, { headers: { "content-type": "multipart/form-data; boundary=x" } }).formData(); return f.constructor.constructor;',
  'headers from a proxy':
    'let found; try { new Headers(new Proxy({ a: "b" }, { ownKeys(t) { found = this; return Reflect.ownKeys(t); }, get(t, k, r) { found = r; return t[k]; } })); } catch (e) { return e; } return found;',
  'headers from pairs that look back':
    'let found; new Headers([{ [Symbol.iterator]: function* () { yield "a"; found = yield { toString() { found = arguments; return "b"; } }; } }]); return found;',
  'headers with the name __proto__':
    'const h = new Headers([["__proto__", "x"], ["constructor", "y"]]); return Object.fromEntries(h).process ?? [...h].constructor.constructor;',
  'this of headers’ forEach':
    'let found; new Headers({ a: "b" }).forEach(function (...a) { found = [this, ...a]; }, undefined); return found[0];',
  'headers of a lookalike':
    'try { return Headers.prototype.get.call(Object.create(Headers.prototype), "a"); } catch (e) { return e; }',
  'a response’s body of an object':
    'let found; const r = new Response({ toString() { found = arguments; return "x"; } }); await r.text(); return found;',
  'json of a body':
    'return (await new Response("{\\"__proto__\\":{\\"process\\":1}}").json()).constructor.constructor;',
  'Response.json of what looks back':
    'let found; Response.json({ toJSON(...a) { found = [this, ...a]; return 1; } }); return found[0];',
  'a response of a stream that is thenable':
    'let found; const s = new ReadableStream({ start(c) { c.enqueue(new Uint8Array(1)); c.close(); } }); s.then = (...a) => { found = a; }; await new Response(s).text(); return found?.[0];',
  'a response’s error': 'return await new Response("x").json().catch((e) => e);',
  'the body twice': 'const r = new Response("x"); await r.text(); return await r.text().catch((e) => e);',
  'a request from a lookalike':
    'let found; try { new Request({ get url() { found = this; return "https://a"; }, toString() { found = arguments; return "https://a"; } }); } catch (e) { return e; } return found;',
  'options of a request':
    'let found; try { new Request("https://a", new Proxy({}, { get(t, k, r) { found = r; } })); } catch (e) { return e; } return found;',
  'the signal of a request': 'return new Request("https://a").signal.constructor.constructor;',
  'a clone of a subclass':
    'class R extends Request { static get [Symbol.species]() { return Function; } } return new R("https://a").clone().constructor.constructor;',
  'a bad request': 'try { new Request("x:\\u0000"); } catch (e) { return e; }',
  'fetch where nothing was granted': 'return fetch;',
  'the getter of fetch': 'return Object.getOwnPropertyDescriptor(globalThis, "fetch")?.get;',
  'the getter of Response, on another object':
    'const d = Object.getOwnPropertyDescriptor(globalThis, "Response"); return d?.get ? d.get.call(null).constructor.constructor : d.value.constructor;',
  'scope of the web’s program':
    'return typeof headerList === "undefined" ? Response.prototype.text.constructor("return headerList")() : headerList;',
  'a frame of the web’s program':
    'let found; Error.prepareStackTrace = (e, c) => c; try { new Headers([[1]]); } catch (e) { found = Array.isArray(e.stack) ? e.stack.map((f) => f.getThis() ?? f.getFunction()).find((v) => v) : undefined; } finally { Error.prepareStackTrace = undefined; } return found;',
  'the web’s classes at the end of the stack':
    'let found; const deep = () => { try { deep(); } catch { try { new Response("x").text(); } catch (e) { found ??= e; } } }; deep(); return found;',
  'a lazy class first read at the end of the stack':
    'let found; const deep = () => { try { deep(); } catch { try { void TransformStreamDefaultController; } catch (e) { found ??= e; } } }; deep(); return found;',
  'a global that the web’s program reads is replaced':
    'let found; const before = globalThis.Uint8Array; try { globalThis.Uint8Array = function (...a) { found = [this, ...a]; return new before(...a); }; await new Blob(["x"]).text(); } finally { globalThis.Uint8Array = before; } return found?.[0];',
  'Promise is replaced for the web’s program':
    'let found; const before = globalThis.Promise; try { globalThis.Promise = class extends before { constructor(f) { super(f); found = f; } }; await new Response("x").text(); } finally { globalThis.Promise = before; } return found;',
};

const events: Rows = {
  'this of a listener':
    'let found; const t = new EventTarget(); t.addEventListener("a", function (...a) { found = [this, ...a]; }); t.dispatchEvent(new Event("a")); return found[0];',
  'a listener that is an object':
    'let found; const t = new EventTarget(); t.addEventListener("a", { get handleEvent() { found = this; return (...a) => { found = a; }; } }); t.dispatchEvent(new Event("a")); return found[0];',
  'a listener that throws':
    'const t = new EventTarget(); t.addEventListener("a", () => { throw { get stack() { return this; }, toString() { return "x"; } }; }); t.dispatchEvent(new Event("a")); return undefined;',
  'options of a listener':
    'let found; new EventTarget().addEventListener("a", () => 0, new Proxy({}, { get(t, k, r) { found = r; } })); return found;',
  'an event of a lookalike':
    'try { new EventTarget().dispatchEvent(Object.create(Event.prototype)); } catch (e) { return e; }',
  'the path of an event':
    'let found; const t = new EventTarget(); t.addEventListener("a", (e) => { found = e.composedPath?.(); }); t.dispatchEvent(new Event("a")); return found?.constructor.constructor;',
  'own symbols of an event': 'const e = new Event("a"); return Object.getOwnPropertySymbols(e).map((k) => e[k])[0];',
  'the detail of an event': 'return new CustomEvent("a", { get detail() { return this; } }).detail;',
  'AbortSignal.any of a proxy':
    'let found; try { AbortSignal.any(new Proxy([AbortSignal.abort()], { get(t, k, r) { found = r; return Reflect.get(t, k, r); } })); } catch (e) { return e; } return found;',
  'AbortSignal.any of lookalikes':
    'let found; try { AbortSignal.any([{ aborted: false, addEventListener(...a) { found = a; } }]); } catch (e) { return e; } return found?.[1];',
  'the reason of a timeout':
    'const s = AbortSignal.timeout(1); await soon((ok) => s.addEventListener("abort", ok)); return s.reason.constructor.constructor;',
  'the time of a timeout looks back':
    'let found; try { AbortSignal.timeout({ valueOf() { found = arguments; return 1; } }); } catch (e) { return e; } return found;',
  'a reason that is thenable':
    'let found; const s = AbortSignal.abort({ then(...a) { found = a; a[0](); } }); try { s.throwIfAborted(); } catch (e) { await e; } return found?.[0];',
  'a signal made by its class': 'try { return new AbortSignal(); } catch (e) { return e; }',
  'the signal of a controller that is extended':
    'class C extends AbortController { get signal() { return super.signal; } } return new C().signal.constructor.constructor;',
  'onabort of the context’s signal':
    'let found; ctx.signal.onabort = function () { found = this; }; ctx.signal.dispatchEvent(new Event("abort")); return found;',
  'an abort of the context’s signal by hand':
    'try { AbortController.prototype.abort.call({ signal: ctx.signal }); } catch (e) { return e; }',
};

const formatting: Rows = {
  'a logged getter':
    'let found; console.log({ get a() { found = this; return arguments; } }); return found?.a?.callee;',
  'a logged proxy':
    'const seen = []; console.log(new Proxy({}, new Proxy({}, { get(t, k) { return (...a) => { seen.push(...a); return Reflect[k](...a); }; } }))); return seen.find((v) => typeof v === "function");',
  'a logged proxy of a function':
    'let found; console.log("%o", new Proxy(() => 0, { get(t, k, r) { found = r; return undefined; } })); return found;',
  '%s of an object': 'let found; console.log("%s", { toString() { found = arguments; return "x"; } }); return found;',
  '%d of an object': 'let found; console.log("%d", { valueOf() { found = arguments; return 1; } }); return found;',
  '%j of toJSON':
    'let found; console.log("%j", { toJSON(...a) { found = [this, ...a]; } }); return found?.[0].constructor;',
  'a table of proxies':
    'let found; console.table(new Proxy([{}], { get(t, k, r) { found = r; return Reflect.get(t, k, r); } })); return found;',
  'a map whose iterator is its own':
    'let found; class M extends Map { *[Symbol.iterator]() { found = this; yield [1, 2]; } entries() { found = arguments; return []; } } console.log(new M([[1, 2]])); return found;',
  'a set with a forEach of its own':
    'let found; class S extends Set { forEach(...a) { found = a; } } console.log(new S([1])); return found?.[0];',
  'an error with a stack of its own':
    'let found; console.log(Object.defineProperty(new Error("x"), "stack", { get() { found = this; return { toString: () => arguments } } })); return found.constructor.constructor;',
  'an error whose cause is itself':
    'const e = new Error("x"); e.cause = e; console.error(e); return e.cause.constructor.constructor;',
  'a class with a name of its own':
    'let found; console.log(class { static get name() { found = this; return arguments; } }); return found;',
  'a constructor that is a getter':
    'let found; console.log({ get constructor() { found = this; return { name: "x" }; } }); return found?.constructor.constructor;',
  'toStringTag of a logged object':
    'let found; console.log({ get [Symbol.toStringTag]() { found = arguments; return "x"; } }); return found;',
  'labels of console.time': 'let found; console.time({ toString() { found = arguments; return "x"; } }); return found;',
  'an assertion that looks back':
    'let found; console.assert(false, { get a() { found = arguments; return 1; } }); return found;',
  'console.trace and its frames':
    'let found; Error.prepareStackTrace = (e, c) => { found = c; return "x"; }; console.trace("x"); Error.prepareStackTrace = undefined; return found?.map((f) => f.getThis() ?? f.getFunction()).find((v) => v);',
  'console.log with another this': 'return console.log.call(new Proxy({}, { get: (t, k, r) => r }), "x");',
  'own symbols of console':
    'return Reflect.ownKeys(console).filter((k) => typeof k === "symbol").map((k) => console[k])[0];',
  'a message that is a stack of proxies':
    'let v = {}; for (let i = 0; i < 1000; i++) v = new Proxy(v, {}); let found; try { console.log(v); } catch (e) { found = e; } return found;',
  'a bad date in a message':
    'try { console.log(new Date(NaN), Object.create(Date.prototype)); } catch (e) { return e; }',
};

const copies: Rows = {
  'a cloned getter': 'let found; structuredClone({ get a() { found = arguments; return 1; } }); return found;',
  'a cloned error with a prototype of its own':
    'const e = new RangeError("x"); Object.defineProperty(e, "name", { value: "DOMException" }); return structuredClone(e).constructor.constructor;',
  'a cloned proxy':
    'try { return structuredClone(new Proxy({}, {})).constructor.constructor; } catch (e) { return e; }',
  'a cloned blob': 'try { return structuredClone(new Blob(["x"])); } catch (e) { return e; }',
  'a cloned stream': 'try { return structuredClone(new ReadableStream()); } catch (e) { return e; }',
  'options of a clone':
    'let found; structuredClone({}, { get transfer() { found = this; return []; } }); return found;',
  'a cloned Temporal':
    'try { return structuredClone(Temporal.PlainDate.from("2026-01-01")).constructor.constructor; } catch (e) { return e; }',
  'a cloned regular expression': 'return structuredClone(/a/g).constructor.constructor;',
  'a cloned array with a hole and a setter':
    'let found; Array.prototype.__defineSetter__?.call([], 0, function (v) { found = this; }); return structuredClone([, 1]).constructor.constructor;',
  'a cloned key ring': 'try { return structuredClone(crypto); } catch (e) { return e; }',
  'a cloned key':
    'const k = await crypto.subtle.generateKey({ name: "AES-GCM", length: 128 }, true, ["encrypt"]); try { return structuredClone(k).constructor.constructor; } catch (e) { return e; }',
  'the class of keys':
    'const k = await crypto.subtle.generateKey({ name: "HMAC", hash: "SHA-256" }, true, ["sign"]); for (let p = k; p; p = Object.getPrototypeOf(p)) for (const s of Object.getOwnPropertySymbols(p)) if (typeof p[s] === "function") return p[s].call(k, 1, { stylize: (...a) => a, showHidden: true }) ?? p[s]; try { new k.constructor({}, {}); } catch (e) { return e; }',
  'a rejected operation of crypto':
    'return await crypto.subtle.digest("x", new Uint8Array(1)).catch((e) => { const p = Object.getPrototypeOf(e); return Object.getOwnPropertySymbols(p).map((s) => p[s]).find((v) => typeof v === "function") ?? p.constructor.constructor; });',
  'the prototype of an iterator of parameters':
    'const p = Object.getPrototypeOf(new URLSearchParams("a=b").entries()); const [inspect] = Object.getOwnPropertySymbols(p).map((s) => p[s]).filter((v) => typeof v === "function"); return inspect.call(new URLSearchParams("a=b").entries(), 1, { stylize: function () { return this; } });',
  'an algorithm that looks back':
    'let found; await crypto.subtle.digest({ get name() { found = this; return "SHA-256"; } }, new Uint8Array(1)); return found.constructor.constructor;',
  'bytes that change while they are hashed':
    'const b = new ArrayBuffer(8, { maxByteLength: 64 }); const p = crypto.subtle.digest("SHA-256", new Uint8Array(b)); b.resize(0); return (await p).constructor.constructor;',
  'random bytes of a subclass':
    'class B extends Uint8Array { get buffer() { return arguments.callee; } } return crypto.getRandomValues(new B(4)).buffer;',
  'a signature of what looks back':
    'let found; try { await webhooks.verify?.({ get headers() { found = this; return {}; } }, {}); } catch (e) { return e; } return found;',
  'a webhook with a proxy':
    'let found; for (const f of Object.values(webhooks)) { try { await f(new Proxy({}, { get(t, k, r) { found = r; } }), "x"); } catch (e) { found ??= e; } } return found;',
  'a host call of what looks back':
    'let found; try { await host.secrets.get({ toString() { found = arguments; return "x"; }, toJSON() { found = arguments; } }); } catch (e) { return found ?? e; }',
  'assets where nothing was granted': 'return host.assets.read;',
  'a path of an asset':
    'let found; try { await host.assets?.read({ toString() { found = arguments; return "../../etc/passwd"; } }); } catch (e) { return e; } return found;',
  'a mixin of every shared prototype':
    'const own = {}; for (const o of [Object, Function, Array, Promise, Map].map((c) => c.prototype)) Object.defineProperties(own, Object.fromEntries(Object.entries(Object.getOwnPropertyDescriptors(o)).filter(([k]) => k !== "length" && !(k in own)))); return own.constructor;',
  'a getter shown by Reflect': 'return Reflect.getOwnPropertyDescriptor(Array.prototype, "map").get;',
  'the value of a getter is replaced':
    'const { get } = Reflect.getOwnPropertyDescriptor(Array.prototype, "map"); try { get.originalValue = process; } catch {} return [].map === get() ? undefined : [].map;',
  'a descriptor by a proxy':
    'let found; Object.getOwnPropertyDescriptor(new Proxy({}, { getOwnPropertyDescriptor(t, k) { found = this; return { get: Reflect.getOwnPropertyDescriptor(Array.prototype, "map").get, configurable: true, enumerable: true }; } }), "a"); return found;',
  'descriptors with the key __proto__':
    'const d = Object.getOwnPropertyDescriptors(Object.defineProperty({}, "__proto__", { get: Reflect.getOwnPropertyDescriptor(Array.prototype, "map").get, configurable: true })); return Object.getPrototypeOf(d) === Object.prototype ? undefined : Object.getPrototypeOf(d);',
};

export const platform = [
  ...seekRows(streams),
  ...seekRows(bodies),
  ...seekRows(events),
  ...seekRows(formatting),
  ...seekRows(copies),
];
