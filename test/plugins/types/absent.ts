// Compiled by test/sdk/package.test.ts, never run: what a plugin has beside the language, and what it has not.
const bytes = crypto.getRandomValues(new Uint8Array(4));
const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(new URL('https://example.com').hostname));
const timer = setTimeout(() => console.warn(structuredClone({ id: crypto.randomUUID() })), 10);
clearTimeout(timer);
console.dir([...new URLSearchParams({ q: 'x' })]);
queueMicrotask(() => new AbortController().abort());
atob(btoa('x'));
const response: Response = await fetch(new Request('https://example.com', { method: 'POST', body: new FormData() }));
for await (const chunk of response.body ?? []) bytes.set(chunk);
clearImmediate(
  setImmediate((text: string) => console.log([{ text, now: performance.now() }]), response.headers.get('x') ?? ''),
);
new EventTarget().addEventListener('x', (event) => console.log('%s', event.type), { signal: AbortSignal.timeout(10) });
ReadableStream.from(['x']).pipeThrough(new TransformStream<string, Uint8Array>()).pipeThrough(new TextDecoderStream());

// @ts-expect-error
process.exit(0);
// @ts-expect-error
require('node:fs');
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
new SharedArrayBuffer(8);
// @ts-expect-error
Atomics.wait;

export {};
