/**
 * Probes of a plugin with all grants: the arguments of host calls, their answers and refusals, `fetch` and the
 * context of a handler. The harness answers each call with its example, and refuses a call whose first argument is `refuse`.
 */
import { type Rows, rowsOf, seekRows } from './probe.ts';

/** Arguments that look back, while the program of the child reads and encodes them. */
const hostileArguments: Rows = {
  'this of toJSON of an argument':
    'let found; await host.storage.set("x", { toJSON(...a) { found = [this, ...a]; return "y"; } }); return found[0].constructor;',
  'the holder of an argument':
    'let found; await host.storage.set("x", { get a() { found = arguments; return "y"; } }); return found;',
  'an argument that is a proxy':
    'const seen = []; const trap = new Proxy({}, { get: (t, k) => (...a) => { seen.push(...a); return Reflect[k](...a); } }); await host.agents.create(new Proxy({ name: "x" }, trap)); return seen.find((v) => typeof v === "function") ?? seen.find((v) => v?.constructor !== Object);',
  'an argument that is a proxy of an array':
    'const seen = []; await host.llm.complete({ messages: new Proxy([1], { get(t, k, r) { seen.push(r); return Reflect.get(t, k, r); } }) }); return seen[0].constructor;',
  'an argument with a then of its own':
    'let found; await host.storage.set("x", { then(...a) { found = a; a[0](); } }); return found?.[0];',
  'Symbol.toPrimitive of an argument':
    'let found; const key = { [Symbol.toPrimitive](...a) { found = [this, arguments]; return "x"; } }; try { await host.storage.get(key); } catch (e) { return e; } return found?.[1];',
  'a function as an argument': 'return await host.storage.set("x", function () { return this; }).catch((e) => e);',
  'a symbol as an argument': 'return await host.storage.get(Symbol("x")).catch((e) => e);',
  'an argument that is a cycle': 'const a = {}; a.a = a; return await host.storage.set("x", a).catch((e) => e);',
  'a BigInt as an argument': 'return await host.storage.set("x", 1n).catch((e) => e);',
  'an argument whose getter throws': 'return await host.storage.set("x", { get a() { null.x; } }).catch((e) => e);',
  'an argument that throws what looks back':
    'let found; await host.storage.set("x", { toJSON() { throw { get message() { found = this; return arguments; }, toString() { found = arguments; return "x"; } }; } }).catch((e) => { found ??= e; }); return found;',
  'an argument at the end of the stack':
    'let found; const deep = () => { try { deep(); } catch { try { host.storage.get("x").catch((e) => { found ??= e; }); } catch (e) { found ??= e; } } }; deep(); await soon((ok) => setTimeout(ok, 20)); return found;',
  'an argument too deep':
    'let a = []; for (let i = 0; i < 5e4; i++) a = [a]; return await host.storage.set("x", a).catch((e) => e);',
  'an argument too long': 'return await host.storage.set("x", "y".repeat(2 ** 26)).catch((e) => e);',
  'a host call inside a getter of an argument':
    'let found; await host.storage.set("x", { get a() { found = host.storage.get("inner"); return "y"; } }); return (await found).constructor.constructor;',
  'a host call inside toJSON, with the answer of the outer one':
    'let inner; const outer = await host.storage.set("x".repeat(600), { toJSON() { inner = host.assets.read("y".repeat(600)); return "z".repeat(600); } }); return [outer, (await inner)?.constructor.constructor][1];',
  'bytes of a subclass':
    'let found; class B extends Uint8Array { get byteLength() { found = this; return 4; } get length() { return 2; } set(...a) { found = a; } slice() { found = arguments; } } await host.media.put(new B(8), "x"); return found?.constructor.constructor;',
  'bytes with a species':
    'let found; class B extends Uint8Array { static get [Symbol.species]() { return function (...a) { found = [this, ...a]; return new Uint8Array(9); }; } } await host.media.put(new B(8), "x"); return found?.[0];',
  'bytes with an iterator of their own':
    'let found; const b = new Uint8Array(4); b[Symbol.iterator] = function (...a) { found = [this, ...a]; return [].values(); }; await host.media.put(b, "x"); return found?.[0];',
  'a schema that looks back':
    'let found; const schema = { type: "object", get properties() { found = arguments; return { a: { type: "string" } }; } }; await host.llm.complete({ messages: [], schema }).catch((e) => { found = e; }); return found;',
  'a schema that is a proxy':
    'let found; await host.llm.complete({ messages: [], schema: new Proxy({}, { get(t, k, r) { found = r; return t[k]; }, ownKeys(t) { found = this; return []; } }) }).catch((e) => { found = e; }); return found.constructor.constructor;',
  'the answer that does not fit a schema':
    'return await host.llm.complete({ messages: [], schema: { type: "object" } }).catch((e) => e);',
  'a schema with a pattern of text':
    'return await host.llm.complete({ messages: [], schema: { pattern: "(?<constructor>x)", properties: { __proto__: { $ref: "#/constructor" } } } }).catch((e) => e);',
  'a schema whose names are code':
    'return await host.llm.complete({ messages: [], schema: { properties: { ["\\"];throw process//"]: { const: "process" + "`" } }, required: ["`process`"] } }).catch((e) => e);',
};

const answers: Rows = {
  'the promise of a call': 'return host.storage.get("x");',
  'the constructor of the promise': 'return host.storage.get("x").constructor;',
  'own symbols of the promise':
    'const p = host.storage.get("x"); return Reflect.ownKeys(p).map((k) => p[k]).find((v) => typeof v === "object" || typeof v === "function");',
  'then of the promise is replaced':
    'let found; const p = host.agents.list(); p.then = function (...a) { found = [this, ...a]; }; Promise.resolve(p); await soon((ok) => setTimeout(ok, 10)); return found;',
  'the species of the promise':
    'let found; const p = host.storage.get("x"); p.constructor = { [Symbol.species]: class { constructor(work) { work((v) => { found = v; }, (v) => { found = v; }); } } }; p.then((v) => v); await soon((ok) => setTimeout(ok, 10)); return found;',
  'an answer that is an object': 'return (await host.session.get()).constructor.constructor;',
  'an answer that is a list': 'return (await host.agents.list()).constructor.constructor;',
  'an answer that is bytes':
    'const b = await host.assets.read("x"); return b.buffer.constructor.constructor ?? b.parent;',
  'the memory of an answer':
    'const b = await host.assets.read("x"); return b.buffer.byteLength > b.byteLength ? new Uint8Array(b.buffer) : undefined;',
  'a setter for every field of an answer':
    'let found; for (const k of ["value", "id", "name", "status", "headers", "bodyBytes", "result", "text"]) { try { Object.defineProperty(Object.prototype, k, { set() { found = this; }, configurable: true }); } catch {} } await host.session.get(); await fetch("https://a"); return found;',
  'a then for every answer':
    'let found; try { Object.defineProperty(Object.prototype, "then", { get() { found = this; }, configurable: true }); } catch {} await host.session.get(); await fetch("https://a"); return found;',
  'Array.prototype gets an index':
    'let found; try { Object.defineProperty(Array.prototype, 0, { set() { found = this; }, configurable: true }); } catch {} await host.agents.list(); return found;',
  'Promise.prototype.then is replaced':
    'let found; const { then } = Promise.prototype; try { Promise.prototype.then = function (...a) { found = [this, ...a]; return Reflect.apply(then, this, a); }; } catch {} await host.session.get(); return found;',
  'Promise is replaced':
    'let found; const before = globalThis.Promise; globalThis.Promise = class extends before { constructor(f) { super(f); found = f; } static resolve(v) { found = v; return before.resolve(v); } }; try { await host.session.get(); await fetch("https://a"); } finally { globalThis.Promise = before; } return found;',
  'JSON is replaced':
    'let found; const before = globalThis.JSON; globalThis.JSON = { parse(...a) { found = [this, ...a]; return before.parse(...a); }, stringify(...a) { found = a; return before.stringify(...a); } }; try { await host.session.get(); await host.llm.complete({ messages: [], schema: {} }).catch(() => 0); } finally { globalThis.JSON = before; } return found?.[0].constructor.constructor;',
  'Uint8Array is replaced':
    'let found; const before = globalThis.Uint8Array; globalThis.Uint8Array = function (...a) { found = [this, ...a]; return new before(...a); }; try { await host.assets.read("x"); await (await fetch("https://a")).text(); } finally { globalThis.Uint8Array = before; } return found?.[0];',
  'host is replaced while a call is under way':
    'let found; const p = host.storage.get("x"); const before = globalThis.host; globalThis.host = new Proxy({}, { get(t, k, r) { found = r; } }); try { await p; } finally { globalThis.host = before; } return found;',
};

const refusals: Rows = {
  'a refusal': 'return await host.storage.get("refuse").catch((e) => e);',
  'the constructor of a refusal': 'return await host.storage.get("refuse").catch((e) => e.constructor.constructor);',
  'the prototypes of a refusal':
    'const e = await host.storage.get("refuse").catch((e) => e); for (let p = e; p; p = Object.getPrototypeOf(p)) for (const k of Reflect.ownKeys(p)) { const v = p[k]; if (typeof v === "function" && ![Error, Object].includes(v)) { try { const made = v.call(e, "x"); if (made?.process || made?.versions) return made; } catch {} } }',
  'the data of a refusal':
    'const e = await host.storage.get("refuse").catch((e) => e); return e.data ?? e.cause ?? e.code.constructor.constructor;',
  'the frames of a refusal':
    'let found; Error.prepareStackTrace = (e, c) => { found = c; return ""; }; try { const e = await host.storage.get("refuse").catch((e) => e); void e.stack; } finally { Error.prepareStackTrace = undefined; } return found?.map((f) => f.getThis() ?? f.getFunction()).find((v) => v);',
  'the stack of a refusal in an asynchronous frame':
    'let found; Error.prepareStackTrace = (e, c) => { found = c; return c; }; try { await (async () => host.storage.get("refuse"))(); } catch (e) { found = Array.isArray(e.stack) ? e.stack : found; } finally { Error.prepareStackTrace = undefined; } return found?.map((f) => f.getThis() ?? f.getFunction() ?? f.getPromiseIndex?.()).find((v) => v);',
  'too many calls':
    'const all = await Promise.allSettled(Array.from({ length: 120 }, () => host.storage.get("x"))); return all.find(({ reason }) => reason)?.reason;',
  'the one error of too many calls is changed':
    'const over = async () => (await Promise.allSettled(Array.from({ length: 120 }, () => host.storage.get("x")))).find(({ reason }) => reason).reason; const e = await over(); try { e.code = () => process; Object.defineProperty(e, "stack", { get: () => process }); } catch {} return (await over()).code;',
  'the cause of a failed fetch': 'return await fetch("refuse:x").catch((e) => e.cause ?? e);',
  'the cause of a refused fetch': 'return await fetch("https://refuse.test/").catch((e) => e.cause);',
  'the frames of a failed fetch':
    'let found; Error.prepareStackTrace = (e, c) => { found = c; return ""; }; try { const e = await fetch("https://refuse.test/").catch((e) => e); void e.stack; void e.cause?.stack; } finally { Error.prepareStackTrace = undefined; } return found?.map((f) => f.getThis() ?? f.getFunction()).find((v) => v);',
  'a veto': 'let found; try { ctx.cancel?.("x"); } catch (e) { found = e; } return found;',
  'the reason of a veto looks back':
    'let found; try { ctx.cancel({ toJSON() { found = arguments; return "x"; }, toString() { found = arguments; return "x"; } }); } catch (e) { found ??= e; } return found;',
};

const fetching: Rows = {
  fetch: 'return fetch;',
  'the constructor of fetch': 'return fetch.constructor("return process")();',
  'fetch as a constructor': 'return Reflect.construct(fetch, ["https://a"]);',
  'this of fetch': 'return await fetch.call(new Proxy({}, { get: (t, k, r) => r }), "https://a");',
  'a response': 'return await fetch("https://a");',
  'the constructor of a response': 'return (await fetch("https://a")).constructor.constructor;',
  'the headers of a response': 'return (await fetch("https://a")).headers.entries().constructor.constructor;',
  'the body of a response': 'return (await fetch("https://a")).body.getReader().constructor.constructor;',
  'the chunks of a response':
    'for await (const part of (await fetch("https://a")).body) return part.buffer.constructor.constructor;',
  'a teed response':
    'const [a, b] = (await fetch("https://a")).body.tee(); return (await a.getReader().read()).value.buffer.constructor.constructor;',
  'a response piped to a sink':
    'let found; await (await fetch("https://a")).body.pipeTo(new WritableStream({ write(...a) { found = [this, ...a]; } })); return found[2]?.constructor;',
  'a response through a transformer':
    'let found; const t = new TransformStream({ transform(...a) { found = [this, ...a]; } }); await (await fetch("https://a")).body.pipeThrough(t).getReader().read(); return found[2]?.constructor;',
  'a cloned response': 'return structuredClone(await fetch("https://a"));',
  'a clone of a response': 'return (await fetch("https://a")).clone().constructor.constructor;',
  'a subclass of Response around a response':
    'class R extends Response { static get [Symbol.species]() { return Function; } get body() { return process; } } const r = await fetch("https://a"); Object.setPrototypeOf(r, R.prototype); return r.body;',
  'a method of Response on another object':
    'return await Response.prototype.text.call({ body: new Proxy({}, { get: (t, k, r) => r }) }).catch((e) => e);',
  'Response.prototype is changed':
    'let found; try { Response.prototype.text = function () { found = this; return process; }; } catch {} return await (await fetch("https://a")).text() && found;',
  'Headers.prototype is changed':
    'let found; try { Headers.prototype[Symbol.iterator] = function () { found = this; return [].values(); }; } catch {} await fetch("https://a", { headers: { a: "b" } }); return found;',
  'Headers is replaced':
    'let found; const before = globalThis.Headers; globalThis.Headers = class { constructor(...a) { found = [this, ...a]; } }; try { await fetch("https://a", { headers: { a: "b" } }); } finally { globalThis.Headers = before; } return found?.[0];',
  'options that are a proxy':
    'let found; await fetch("https://a", new Proxy({}, { get(t, k, r) { found = r; } })).catch((e) => { found = e; }); return found.constructor.constructor;',
  'options with a then':
    'let found; await fetch("https://a", { then(...a) { found = a; a[0](); } }); return found?.[0];',
  'an address that looks back':
    'let found; await fetch({ toString() { found = arguments; return "https://a"; } }); return found;',
  'an address that is a thenable':
    'let found; await fetch({ then(...a) { found = a; a[0](); }, toString: () => "https://a" }); return found?.[0];',
  'a lookalike of a Request':
    'let found; await fetch(Object.create(Request.prototype, { url: { get() { found = this; return "https://a"; } } })).catch((e) => { found ??= e; }); return found;',
  'a subclass of Request':
    'let found; class R extends Request { get url() { found = this; return "file:///etc/passwd"; } get headers() { found = arguments; return {}; } get signal() { return process; } } await fetch(new R("https://a")).catch((e) => { found ??= e; }); return found.constructor.constructor;',
  'a signal that looks back':
    'let found; const { signal } = new AbortController(); signal.addEventListener = (...a) => { found = a; }; signal.throwIfAborted = function () { found = arguments; }; await fetch("https://a", { signal }); return found?.[1] ?? found;',
  'the reason of a signal is a thenable':
    'let found; const c = new AbortController(); const p = fetch("https://a", { signal: c.signal }); c.abort({ then(...a) { found = a; a[0](); } }); await p.catch((e) => e); return found?.[0];',
  'a body that is an iterator':
    'let found; const body = { [Symbol.asyncIterator]() { found = [this]; return { next(...a) { found.push(this, ...a); return { done: true }; }, return(...a) { found.push(...a); } }; } }; await fetch("https://a", { method: "POST", body, duplex: "half" }); return found.find((v) => typeof v === "function");',
  'a body whose stream has another iterator':
    'let found; const body = new ReadableStream({ start(c) { c.close(); } }); body[Symbol.asyncIterator] = function (...a) { found = [this, ...a]; return { next: async () => ({ done: true }) }; }; await fetch("https://a", { method: "POST", body, duplex: "half" }); return found?.[1];',
  'a body that gives objects':
    'let found; const body = new ReadableStream({ start(c) { c.enqueue({ [Symbol.toPrimitive]() { found = arguments; return "x"; } }); c.close(); } }); await fetch("https://a", { method: "POST", body, duplex: "half" }).catch((e) => { found ??= e.cause ?? e; }); return found;',
  'a body that shrinks':
    'const memory = new ArrayBuffer(4096, { maxByteLength: 8192 }); const p = fetch("https://a", { method: "POST", body: new Uint8Array(memory) }); memory.resize(0); return (await p).constructor.constructor;',
  'a body that is detached':
    'const bytes = new Uint8Array(4096); const p = fetch("https://a", { method: "POST", body: bytes }); bytes.buffer.transfer(); return (await p).constructor.constructor;',
  'a Blob of a subclass':
    'let found; class B extends Blob { get size() { found = this; return 1; } stream() { found = arguments; } arrayBuffer() { found = arguments; } } await fetch("https://a", { method: "POST", body: new B(["x"]) }); return found;',
  'a form with an object':
    'let found; const f = new FormData(); f.append({ toString() { found = arguments; return "a"; } }, { toString() { found = arguments; return "b"; } }); await fetch("https://a", { method: "POST", body: f }); return found;',
  'the getter of fetch':
    'const d = Object.getOwnPropertyDescriptor(globalThis, "fetch"); return d.get?.call(null).constructor ?? d.value.constructor;',
  'fetch at the end of the stack':
    'let found; const deep = () => { try { deep(); } catch { try { fetch("https://a").catch((e) => { found ??= e; }); } catch (e) { found ??= e; } } }; deep(); await soon((ok) => setTimeout(ok, 20)); return found;',
};

const contexts: Rows = {
  'the context': 'return ctx;',
  'the prototype of the context': 'return Object.getPrototypeOf(ctx).constructor.constructor;',
  'own symbols of the context': 'return Object.getOwnPropertySymbols(ctx).map((k) => ctx[k])[0];',
  'the getter of the signal': 'return Object.getOwnPropertyDescriptor(ctx, "signal").get;',
  'this of the getter of the signal':
    'return Object.getOwnPropertyDescriptor(ctx, "signal").get.call(new Proxy({}, { get: (t, k, r) => r })).constructor.constructor;',
  'the prototypes of the signal':
    'for (let p = ctx.signal; p; p = Object.getPrototypeOf(p)) for (const k of Reflect.ownKeys(p)) { const d = Reflect.getOwnPropertyDescriptor(p, k); for (const f of [d.value, d.get, d.set]) { try { const v = f.call(ctx.signal, "x"); if (v?.versions || v?.process) return v; } catch {} } }',
  'a signal that a plugin changes':
    'try { Object.defineProperty(Object.getPrototypeOf(ctx.signal), "aborted", { value: true }); return process; } catch (e) { return e; }',
  'a handler that answers a thenable': 'return { then: (...a) => a[0](a[0]) };',
  'a getter of an answer':
    'globalThis.looked = undefined; setTimeout(() => { globalThis.looked = undefined; }, 50); return globalThis.looked;',
};

/** With the realm up, a plugin never writes a frame of its own: what it sends is what the program of the child encoded. */
const frames: Rows = {
  'bytes that are a proxy':
    'const p = new Proxy(new Uint8Array(8), { get: (t, k) => k === "byteLength" ? 4 : k === "length" ? 0 : Reflect.get(t, k) }); await host.media.put(p, "x").catch(() => 0);',
  'a proxy of bytes that forges a frame': `const forged = new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", id: 9e6, method: "hostCall", params: { member: "secrets.get", args: ["x"], invocationId: "$foreign" } }));
     let asked = 0; const p = new Proxy(new Uint8Array(0), { get: (t, k) => k === "byteLength" ? (asked++ ? -20 : 0) : k === "length" ? forged.length : forged[k] });
     await Promise.race([host.media.put(p, "x".repeat(1e3)).catch(() => 0), soon((ok) => setTimeout(ok, 20))]);`,
  'bytes that lie about their length':
    'const b = new Uint8Array(8); Object.defineProperty(b, "byteLength", { get: () => 100 }); await host.media.put(b, "x").catch(() => 0);',
  'bytes of a subclass that lies':
    'let n = 0; class B extends Uint8Array { get byteLength() { n += 1; return n % 2 ? 0 : -8; } } await host.media.put(new B(8), "x").catch(() => 0);',
  'bytes of a prototype': 'await host.media.put(Object.create(Uint8Array.prototype), "x").catch(() => 0);',
  'bytes that shrink while the rest is read':
    'const m = new ArrayBuffer(4096, { maxByteLength: 8192 }); await host.agents.create({ a: new Uint8Array(m), b: { toJSON() { m.resize(8); return "x"; } } }).catch(() => 0);',
  'bytes that grow while the rest is read':
    'const m = new ArrayBuffer(8, { maxByteLength: 8192 }); await host.agents.create({ a: new Uint8Array(m), b: { toJSON() { m.resize(8192); return "x"; } } }).catch(() => 0);',
  'bytes that are moved while the rest is read':
    'const b = new Uint8Array(4096); await host.agents.create({ a: b, b: { toJSON() { b.buffer.transfer(); return "x"; } } }).catch(() => 0);',
  'a host call inside the encoding of another':
    'const long = "y".repeat(5e3); await host.agents.create({ a: long, b: new Uint8Array(5e3), c: { toJSON() { host.storage.set("x", "z".repeat(9e3)); return long; } } });',
  'a host call inside the encoding of a log line':
    'host.log("x", { a: "y".repeat(600), b: { toJSON() { host.storage.set("x", "z".repeat(9e3)); return 1; } } });',
  'names that are a path':
    'await host.agents.create(JSON.parse(JSON.stringify({ a: 1 }).replace("1", \'{"__proto__":"\' + "x".repeat(600) + \'","constructor":{"prototype":"\' + "y".repeat(600) + \'"}}\')));',
  'an argument named parts':
    'await host.agents.create({ parts: [1, "params", 0, 5], params: "x".repeat(600), result: "y".repeat(600), jsonrpc: "1.0", id: -1, method: "load" });',
  'more bytes than parts':
    'await host.agents.create(Array.from({ length: 300 }, () => new Uint8Array(1))).catch(() => 0);',
  'more texts than parts':
    'await host.agents.create(Object.fromEntries(Array.from({ length: 300 }, (_, i) => ["k" + i, "x".repeat(600)])));',
  'an array that changes its length':
    'let n = 0; await host.agents.create(new Proxy([], { get: (t, k) => k === "length" ? (n += 1) % 7 : k === Symbol.iterator ? [][k] : k in t ? t[k] : "x".repeat(600) })).catch(() => 0);',
  'an object that is plain only at the first look':
    'let n = 0; await host.agents.create(new Proxy(new Uint8Array(700), { getPrototypeOf: () => n++ ? Uint8Array.prototype : Object.prototype })).catch(() => 0);',
  'half a character at the end of a text': 'await host.storage.set("x", "y".repeat(600) + "\\ud83d");',
  'an invocation of another':
    'await host.storage.get({ invocationId: "$foreign", toJSON() { return this.invocationId; } });',
  'an answer with bytes that lie':
    'const b = new Uint8Array(8); Object.defineProperty(b, "byteLength", { value: 1e6 }); return { b, toString: () => "" };',
  'an answer that is a proxy of bytes':
    'let n = 0; return { a: new Proxy(new Uint8Array(8), { get: (t, k) => k === "byteLength" ? -(n++) : k === "length" ? 4 : k === "toJSON" ? undefined : 65 }) };',
  'an answer with a promise whose then throws':
    'const p = Promise.resolve(1); p.then = () => { throw new Error("x"); }; return p;',
};

export const granted = [hostileArguments, answers, refusals, fetching, contexts].flatMap(seekRows);
/** The harness looks at what arrives, whatever these probes answer. */
export const frameRows = rowsOf(frames, { counts: /^(?!)/ });
