/**
 * Code that wants all there is. It passes when the call ends in time, by whatever end, and the supervisor lost neither
 * its breath nor its memory. Each has a child of its own.
 */
import { type Rows, rowsOf } from './probe.ts';

const cpu: Rows = {
  'an endless loop': 'for (;;);',
  'an endless loop behind an await': 'await null; for (;;);',
  'endless microtasks': 'const f = () => Promise.resolve().then(f); await f(); await new Promise(() => f());',
  'endless queueMicrotask': 'const f = () => queueMicrotask(f); f(); await new Promise(() => 0);',
  'endless timers': 'const f = () => { setTimeout(f, 0); setTimeout(f, 0); }; f(); await new Promise(() => 0);',
  'an asynchronous storm': 'for (;;) { await null; (async () => { for (;;) await null; })(); }',
  'a regular expression': '/^(a+)+$/.test("a".repeat(40) + "!");',
  'a regular expression with references': '/^(.*)*\\1$/.test("ab".repeat(30));',
  'a sort with a lying comparator':
    'for (;;) Array.from({ length: 1e5 }, Math.random).sort(() => Math.random() - 0.5);',
  'a BigInt power': 'let x = 3n; for (;;) x **= 3n;',
  'a BigInt as text': '(3n ** 3000000n).toString();',
  'endless recursion': 'const f = () => { try { f(); } finally { f(); } }; f();',
  'an endless generator': 'for (const x of (function* () { for (;;) yield 1; })());',
  'an endless iterator': 'Array.from({ [Symbol.iterator]: () => ({ next: () => ({}) }) });',
  'an endless array-like': 'Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);',
  'a proxy of endless prototypes':
    'const p = new Proxy({}, { getPrototypeOf: () => p }); p instanceof Object; for (;;) p instanceof Object;',
  'JSON of great depth': 'for (;;) JSON.parse("[".repeat(1e6) + "]".repeat(1e6));',
  'a getter that never ends': 'return { get a() { for (;;); } };',
  'a toJSON that never ends': 'return { toJSON() { for (;;); } };',
  'a promise that never settles': 'await new Promise(() => 0);',
  'a thenable that never settles': 'return { then() {} };',
  'a wait on shared memory': 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);',
  normalization: 'for (;;) "\\u0344".repeat(1e6).normalize("NFD");',
  'Intl collation': 'for (;;) ["a", "b"].sort(new Intl.Collator("de").compare);',
  'a parser': '(0, eval)("(".repeat(2e5) + ")".repeat(2e5)); for (;;);',
  'many functions of text': 'for (let i = 0; ; i += 1) Function("return " + i)();',
  digests: 'const b = new Uint8Array(1e6); for (;;) await crypto.subtle.digest("SHA-512", b);',
};

const memory: Rows = {
  'a list that grows': 'const all = []; for (;;) all.push(new Array(1000).fill(all.length));',
  'typed arrays': 'const all = []; for (;;) all.push(new Uint8Array(4e6).fill(1));',
  'array buffers that grow':
    'const all = []; for (;;) { const b = new ArrayBuffer(1, { maxByteLength: 2 ** 28 }); b.resize(2 ** 25); new Uint8Array(b).fill(1); all.push(b); }',
  'shared memory': 'const all = []; for (;;) all.push(new Uint8Array(new SharedArrayBuffer(4e6)).fill(1));',
  'a string that doubles': 'let s = "x"; for (;;) s += s;',
  'flat strings':
    'const all = []; for (let i = 0; ; i += 1) all.push((i + "x".repeat(1e6)).split("").reverse().join(""));',
  padding: 'const all = []; for (;;) all.push("x".padEnd(2 ** 28, all.length + "ab"));',
  'a map': 'const m = new Map(); for (let i = 0; ; i += 1) m.set(i, { i });',
  'a join': 'const a = new Array(2 ** 27).join("ab"); return a.length && new Array(2 ** 28).fill(0).map(String);',
  'timers that wait': 'for (;;) setTimeout(() => 0, 1e6);',
  'promises that wait': 'const all = []; for (;;) all.push(new Promise(() => 0).then(() => 0));',
  closures: 'let f = () => 0; for (;;) { const g = f; f = () => g; }',
  clones:
    'const o = Array.from({ length: 1e5 }, (_, i) => ({ i })); const all = []; for (;;) all.push(structuredClone(o));',
  'random bytes': 'const all = []; for (;;) all.push(crypto.getRandomValues(new Uint8Array(65536)));',
  symbols: 'for (let i = 0; ; i += 1) Symbol.for("s" + i);',
  'a regular expression of its own':
    'const all = []; for (let i = 0; ; i += 1) { const r = new RegExp("a{1,900}".repeat(200) + i); r.test("a"); all.push(r); }',
};

const flooding: Rows = {
  'log lines': 'for (;;) host.log("x".repeat(100));',
  'long log lines': 'for (;;) host.log("x".repeat(1e7));',
  'log lines with data': 'const d = { a: "y".repeat(1e5) }; for (;;) host.log("x", d);',
  'console lines': 'for (;;) console.error("x");',
  'log lines between awaits': 'for (;;) { await null; host.log("x"); }',
  'host calls': 'for (;;) host.secrets.get("x").catch(() => 0);',
  'host calls between turns':
    'for (;;) { host.secrets.get("x").catch(() => 0); await new Promise((ok) => setTimeout(ok, 0)); }',
  'host calls with large arguments':
    'const a = "x".repeat(3e6); for (;;) { host.secrets.get(a).catch(() => 0); await null; }',
  'a large answer': 'return "x".repeat(1e8);',
  'a wide answer': 'return Array.from({ length: 2e6 }, (_, i) => i);',
  'a deep answer': 'let a = []; for (let i = 0; i < 1e5; i += 1) a = [a]; return a;',
  'a circular answer': 'const a = {}; a.a = a; return a;',
  'an answer of large texts': 'return Array.from({ length: 100 }, () => "x".repeat(1e6));',
  'unhandled rejections': 'for (;;) { Promise.reject(new Error("x")); await null; }',
  'exceptions in timers': 'setInterval(() => { throw new Error("x"); }, 0); await new Promise(() => 0);',
  'a long veto': 'ctx.cancel("x".repeat(1e7));',
  'a long error': 'throw new Error("x".repeat(1e7));',
  'an error with an endless stack': 'const e = new Error("x"); e.stack = "y".repeat(1e8); throw e;',
};

export const exhaustion = [...rowsOf(cpu), ...rowsOf(memory), ...rowsOf(flooding)];
