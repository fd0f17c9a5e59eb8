// Compiled by test/sdk/types.test.ts, never run: what a plugin has beside the language, and what it has not.
const bytes = crypto.getRandomValues(new Uint8Array(4));
const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(new URL('https://example.com').hostname));
const timer = setTimeout(() => console.warn(structuredClone({ id: crypto.randomUUID() })), 10);
clearTimeout(timer);
console.dir([...new URLSearchParams({ q: 'x' })]);
queueMicrotask(() => new AbortController().abort());
atob(btoa('x'));

// @ts-expect-error
process.exit(0);
// @ts-expect-error
require('node:fs');
// @ts-expect-error
await fetch('https://example.com');
// @ts-expect-error
Buffer.from('x');
// @ts-expect-error
globalThis.process;
// @ts-expect-error
new WebSocket('wss://example.com');
// @ts-expect-error
new XMLHttpRequest();
// @ts-expect-error
document.cookie;
// @ts-expect-error
WebAssembly.compile(bytes);
// @ts-expect-error
new Worker('x');
// @ts-expect-error
__dirname;
// @ts-expect-error
await import('node:fs');
// @ts-expect-error
setImmediate(() => {});
// @ts-expect-error
performance.now();
// @ts-expect-error
new SharedArrayBuffer(8);
// @ts-expect-error
Atomics.wait;
// @ts-expect-error
new WeakRef(bytes);

export {};
