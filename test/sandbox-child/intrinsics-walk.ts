/** Programs that look at everything a realm's global object leads to. They run in plain Node and in a child. */

/** Values that no global leads to, but syntax or a call does. */
const SAMPLES = `({
  asyncFunction: async () => 0, generator: function* () {}, asyncGenerator: async function* () {},
  arrayIterator: [].values(), stringIterator: ''[Symbol.iterator](), matches: 'a'.matchAll(/a/g),
  mapIterator: new Map().values(), setIterator: new Set().values(), helper: [].values().map((x) => x),
  wrapped: Iterator.from({ next() {} }), joined: Iterator.concat([1]), segments: new Intl.Segmenter().segment(''),
  segmentIterator: new Intl.Segmenter().segment('')[Symbol.iterator](), arguments: (function () { 'use strict'; return arguments; })(),
  promise: Promise.resolve(), running: (function* () {})(), runningAsync: (async function* () {})(), error: new Error('x'),
  match: /a/.exec('a'), template: ((strings) => strings)\`a\`, bound: (() => 0).bind(), dateParts: new Intl.NumberFormat().formatToParts(1),
})`;

/** Instances of what only a plugin has, and what its functions give out and throw. */
const PLATFORM_SAMPLES = `(() => {
  const thrown = (work) => { try { work(); } catch (error) { return error; } };
  const form = new FormData();
  form.append('a', new Blob(['b']));
  const [headers, parameters, stream] = [new Headers({ a: 'b' }), new URLSearchParams('a=b'), new ReadableStream()];
  const transform = new TransformStream();
  const formatters = Object.getOwnPropertyNames(Intl).filter((name) => typeof Intl[name] === 'function' && /^[A-Z]/.test(name));
  const types = { DisplayNames: [['en'], { type: 'region' }], Locale: ['en'] };
  const now = Temporal.Now.zonedDateTimeISO('UTC');
  return {
    ...Object.fromEntries(formatters.map((name) => ['Intl.' + name, new Intl[name](...(types[name] ?? []))])),
    temporal: [now, now.toInstant(), now.toPlainDate(), now.toPlainTime(), now.toPlainDateTime(), now.since(now),
      now.toPlainDate().toPlainYearMonth(), now.toPlainDate().toPlainMonthDay()],
    headers: [headers, headers.entries(), headers.keys(), headers[Symbol.iterator]()],
    parameters: [parameters, parameters.entries(), parameters.getAll('a'), new URL('http://a').searchParams],
    form: [form, form.entries(), form.get('a')],
    body: [new Request('https://a'), new Request('https://a').signal, new Response('x'), new Response('x').body, new Response('x').text()],
    stream: [stream, ...new ReadableStream().tee(), new ReadableStream().getReader(), new ReadableStream()[Symbol.asyncIterator]()],
    sink: [new WritableStream(), new WritableStream().getWriter(), transform, transform.readable, new TextEncoderStream(), new TextDecoderStream()],
    strategies: [new CountQueuingStrategy({ highWaterMark: 1 }), new ByteLengthQueuingStrategy({ highWaterMark: 1 })],
    events: [new Event('a'), new CustomEvent('a'), new EventTarget(), new AbortController(), AbortSignal.abort(), AbortSignal.abort().reason,
      AbortSignal.any([AbortSignal.abort()])],
    errors: [() => new URL('x'), () => atob('*'), () => structuredClone(() => 0), () => new Headers([[1]]), () => null.x, () => nobody,
      () => new Array(-1), () => decodeURI('%'), () => (0, eval)('('), () => crypto.getRandomValues(new Uint8Array(1e6)), () => setTimeout(1),
      () => ReadableStream.prototype.getReader.call({}), () => new ReadableStreamDefaultController()].map(thrown),
    copies: [structuredClone(new Map([[1, new Date()]])), structuredClone(new Error('x')), structuredClone(/a/), structuredClone(new Uint8Array(1))],
    bytes: [new TextEncoder().encode('x'), new TextDecoder(), crypto.getRandomValues(new Uint8Array(1)), crypto.subtle.digest('SHA-256', new Uint8Array(1))],
    made: [Function('return this'), (async () => 0).constructor('return 1'), (function* () {}).constructor('yield 1')(),
      (async function* () {}).constructor('yield 1')(), eval('(() => 0)')],
    keys: [key, pair.publicKey, pair.privateKey].map(Object.getPrototypeOf),
    rejected: rejected.map(({ reason }) => Object.getPrototypeOf(Object(reason))),
    stacks: [new DisposableStack(), new AsyncDisposableStack(), new WeakRef({}), new FinalizationRegistry(() => 0)],
  };
})()`;

/** An expression: the paths of everything reachable from these globals, by object. A path is the first found, breadth first. */
const makeWalk = (samples: string): string => `((roots, given) => {
  const samples = ${samples};
  const paths = new Map();
  const add = (value, path) => {
    if ((typeof value === 'object' || typeof value === 'function') && value !== null && !paths.has(value)) paths.set(value, path);
  };
  for (const name of roots) add(globalThis[name], name);
  for (const name of Object.keys(samples)) add(samples[name], name);
  for (const [object, path] of paths) {
    add(Reflect.getPrototypeOf(object), path + '.[[Prototype]]');
    for (const key of Reflect.ownKeys(object)) {
      const descriptor = Reflect.getOwnPropertyDescriptor(object, key);
      add(descriptor.value, path + '.' + String(key));
      add(descriptor.get, path + '.get ' + String(key));
      add(descriptor.set, path + '.set ' + String(key));
      try { add(object[key], path + '.' + String(key)); } catch {}
    }
  }
  return paths;
})`;
const WALK = makeWalk(SAMPLES);
const PLUGIN_WALK = makeWalk(`({ ...${SAMPLES}, ...${PLATFORM_SAMPLES} })`);

/** An expression: the members of everything reachable from these globals, as sorted paths. */
export const listMembers = (roots: readonly string[]): string => `(() => {
  const paths = ${WALK}(${JSON.stringify(roots)});
  const found = new Set();
  for (const [object, path] of paths) for (const key of Reflect.ownKeys(object)) found.add(path + '.' + String(key));
  return [...found].filter((path) => !/\\.(?:get|set) /.test(path)).sort();
})()`;

/** An expression: the inherited names that an own object cannot be assigned, as sorted paths. */
export const listUnassignable = (roots: readonly string[]): string => `(() => {
  'use strict';
  const found = [];
  for (const [object, path] of ${WALK}(${JSON.stringify(roots)}))
    for (const key of Reflect.ownKeys(object)) {
      const own = Object.create(object);
      try { own[key] = 1; } catch { found.push(path + '.' + String(key)); }
    }
  return found.filter((path) => !/\\.(?:get|set) |unscopables\\)\\./.test(path)).sort();
})()`;

/**
 * An expression: what is reachable from the global object and can be changed, as paths. Objects that two walks do not share are made
 * anew for each.
 */
export const LIST_UNFROZEN = `(async () => {
  const key = await crypto.subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
  const pair = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign']);
  const rejected = await Promise.allSettled([crypto.subtle.digest('x', 1), crypto.subtle.digest('SHA-1'), crypto.subtle.sign('HMAC', key, 1),
    crypto.subtle.importKey('raw', new Uint8Array(1), 'AES-GCM', true, ['sign']), new Response('x').json(),
    new ReadableStream().pipeTo({}), AbortSignal.any]);
  const names = Object.getOwnPropertyNames(globalThis);
  const [paths, again] = [${PLUGIN_WALK}(names), ${PLUGIN_WALK}(names)];
  const open = [...paths].filter(([object]) => again.has(object) && !Object.isFrozen(object) && object !== globalThis);
  return { seen: paths.size, open: open.map(([, path]) => path) };
})()`;

/**
 * An expression: the functions of these globals that fail with an error whose class can be changed, as sorted paths. Calls each of them
 * with wrong arguments, on an instance of its class and on another object, and decodes wrong bytes.
 */
export const listOpenErrors = (roots: readonly string[]): string => `(async () => {
  const parameters = new URLSearchParams('a=b');
  const instances = { URL: new URL('http://a'), URLSearchParams: parameters, Entries: parameters.entries(), TextDecoder: new TextDecoder(),
    TextEncoder: new TextEncoder() };
  const wrong = [[], [1], [{}], ['x', {}], [[[1]]], [{ [Symbol.iterator]: 1 }], [Symbol('x')]];
  const globals = ${JSON.stringify(roots)}.map((name) => [name, globalThis[name]]);
  const given = { ...Object.fromEntries(globals), Entries: { prototype: Object.getPrototypeOf(instances.Entries) } };
  const open = new Set();
  const calls = [];
  const addError = (path, error) => {
    for (let object = Object(error); object !== null; object = Object.getPrototypeOf(object))
      if (object !== error && !Object.isFrozen(object)) open.add(path);
  };
  const attempt = (path, call) => {
    try { calls.push(Promise.resolve(call()).catch((error) => addError(path, error))); } catch (error) { addError(path, error); }
  };
  for (const [value, path] of ${makeWalk('given')}([], given)) {
    if (typeof value !== 'function' || /constructor|\\[\\[Prototype/.test(path)) continue;
    for (const args of wrong) {
      for (const self of [{}, instances[path.split('.')[0]]]) attempt(path, () => Reflect.apply(value, self, args));
      attempt('new ' + path, () => Reflect.construct(value, args));
    }
  }
  for (const label of ['utf-8', 'windows-1253'])
    attempt('decode ' + label, () => new TextDecoder(label, { fatal: true }).decode(new Uint8Array([0xff])));
  await Promise.all(calls);
  return { calls: calls.length, open: [...open].sort() };
})()`;

/**
 * Registers every kind of handler, each of which keeps `this`, its arguments and what `cancel` throws in `handled`.
 *
 * @param hooks names such as `middleware.toolCall`
 */
export const registerKeepers = (hooks: readonly string[], events: readonly string[]): string => `
  globalThis.handled = [];
  const keep = function (...given) {
    const ctx = given.at(-1);
    const thrown = (() => { try { ctx.cancel?.('x'); } catch (error) { return error; } })();
    handled.push([own.includes(this) ? null : this, ...given, ctx.signal, thrown]);
  };
  ${[...hooks, ...events.map((name) => `events.${name}`)].map((name) => `${name} = keep;`).join('\n')}
  // Handlers of these are called with the plugin's own object as \`this\`.
  const own = [{ description: 'test', parameters: {}, handler: keep }, { models: [{ id: 'm', name: 'M' }], chat: keep }];
  [tools.kept, providers.kept] = own;
  commands.kept = own[0];
  for (const name of ['receive', 'send', 'handshake']) channel[name] = keep;
`;

/**
 * An expression: what a plugin to which everything is granted reaches and two looks share, but can be changed, as paths, and what
 * inherits from another realm. `handled` holds what every handler was called with, twice.
 *
 * @param examples arguments by name of the host call
 */
export const listUnfrozenGrants = (examples: Readonly<Record<string, readonly unknown[]>>): string => `(async () => {
  const examples = ${JSON.stringify(examples)};
  const settle = async (work) => { try { return await work(); } catch (error) { return error; } };
  const look = async (handled) => {
    const given = { host, fetch, handled };
    for (const [name, args] of Object.entries(examples)) {
      const [group, method] = name.split('.');
      const promise = host[group][method](...args);
      given[name] = [promise, await promise, await settle(() => host[group][method]('refuse'))];
    }
    const toJSON = () => { throw Object.assign(new Error('x'), { own: 1 }); };
    given.errors = [await settle(() => host.storage.set('x', { toJSON })), await settle(() => host.storage.set('x', 1n)),
      await settle(() => host.llm.complete({ messages: [], schema: { type: 'object' } })),
      await settle(() => host.llm.complete({ messages: [], schema: { type: 'none' } })),
      (await Promise.allSettled(Array.from({ length: 100 }, () => host.storage.get('x')))).at(-1).reason];
    const [response, streamed] = [await fetch('https://a'), await fetch('https://a')];
    const reader = streamed.body.getReader();
    given.response = [response, response.headers, response.headers.entries(), response.body, response.body[Symbol.asyncIterator](), reader,
      await reader.read(), response.clone, await (await fetch('https://a')).blob()];
    given.failed = [await settle(() => fetch('refuse:x')), await settle(() => fetch('https://refuse.test/')),
      await settle(() => fetch('https://a', { signal: AbortSignal.abort() }))];
    return (${makeWalk('given')})([], given);
  };
  const half = handled.length / 2;
  const [paths, again] = [await look(handled.slice(0, half)), await look(handled.slice(half))];
  const open = [...paths].filter(([object]) => again.has(object) && !Object.isFrozen(object) && object !== globalThis);
  const rootOf = (object) => {
    const parent = Reflect.getPrototypeOf(object);
    return parent === null ? object : rootOf(parent);
  };
  const isForeign = (object) => Reflect.getPrototypeOf(object) !== null && rootOf(object) !== Object.prototype;
  const foreign = [...paths].filter(([object]) => isForeign(object));
  return { seen: paths.size, handled: half, open: open.map(([, path]) => path), foreign: foreign.map(([, path]) => path) };
})()`;

/** A program: freezes everything that the global object leads to, and nothing else. */
export const FREEZE_SHARED = `(() => {
  for (const object of ${WALK}(Object.getOwnPropertyNames(globalThis)).keys())
    if (object !== globalThis && !ArrayBuffer.isView(object)) Object.freeze(object);
})()`;
