/** The tables of a plugin's globals against the realm of a real child, and that realm against the language. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { hostExamples, listExampleArguments } from '../../sdk/contract/host-examples.ts';
import { events, type HostCallName, hooks, hostCalls, type Target } from '../../sdk/contract/protocol.ts';
import {
  absentGlobals,
  foreignGlobals,
  globalNames,
  languageGlobals,
  platformGlobals,
  pluginGlobals,
  withheldGlobals,
} from '../../sdk/contract/realm-globals.ts';
import { HostCallRefusal } from '../../supervisor/children/child-errors.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { bundleOf, callTool, testChild, testJail } from '../supervisor/children/jailed-child.ts';
import {
  LIST_UNFROZEN,
  listMembers,
  listOpenErrors,
  listUnassignable,
  listUnfrozenGrants,
  registerKeepers,
} from './intrinsics-walk.ts';

/** Not the global object itself. */
const language = languageGlobals.filter((name) => name !== 'globalThis');
const root = fileURLToPath(new URL('../..', import.meta.url));

const jail = await testJail(t);
const child = testChild(t, jail);
const EVALUATOR =
  "tools.run = { description: 'test', parameters: {}, handler: async ({ code }) => JSON.stringify(await (0, eval)(code)) };";
await child.load(bundleOf(EVALUATOR));

/** Evaluates a program in a child, as the code of a plugin. */
async function evaluate(code: string, inChild = child): Promise<unknown> {
  const outcome = await callTool(inChild, 'run', { code });
  return outcome.outcome === 'answered' ? JSON.parse(String(outcome.answer)) : outcome;
}

t.test('the realm has exactly the names of the list', async (t) => {
  t.same(await evaluate('Object.getOwnPropertyNames(globalThis).sort()'), globalNames.toSorted());
  // The host grants nothing here.
  const absent = Object.keys(absentGlobals);
  t.same(await evaluate(`${JSON.stringify(absent)}.filter((name) => name in globalThis)`), []);
});

t.test('the list has every name of the language, or a reason', async (t) => {
  const names: string[] = runInNewContext('Object.getOwnPropertyNames(globalThis)');
  const known = new Set<string>([...languageGlobals, ...Object.keys(withheldGlobals), 'console']);
  t.same(
    names.filter((name) => !known.has(name)),
    [],
    'describe a new name in realm-globals.ts',
  );
});

t.test('the types declare exactly the names of the list', async (t) => {
  const directory = await temporaryFolder(t);
  const lines = [
    '/// <reference lib="esnext.temporal" />',
    ...globalNames.map((name) => `void ${name};`),
    ...Object.keys({ ...withheldGlobals, ...foreignGlobals }).flatMap((name) => [
      '// @ts-expect-error',
      `void ${name};`,
    ]),
  ];
  await writeFile(join(directory, 'names.ts'), lines.join('\n'));
  const config = { extends: join(root, 'sdk/tsconfig.plugin.json'), include: ['*.ts'] };
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config));
  const tsc = join(root, 'test/node_modules/typescript-7/bin/tsc');
  const checked = promisify(execFile)(tsc, ['-p', directory, '--singleThreaded']);
  const { stdout } = await checked.catch((error: { stdout: string }) => error);
  t.equal(stdout, '');
});

/** Members of the language that plugins do not have. */
const WITHHELD: readonly RegExp[] = [
  // The last match is a state that all code of a process shares.
  /^RegExp\.(?:input|lastMatch|lastParen|leftContext|rightContext|\$.)$/,
  // It changes a frozen regular expression.
  /^RegExp\.prototype\.compile/,
  // Node has these, the language does not.
  /^promise\.Symbol\(/,
];

t.test('every member of the language is there', async (t) => {
  const inNode: string[] = runInNewContext(listMembers(language));
  const inChild = new Set((await evaluate(listMembers(language))) as string[]);
  t.same(
    inNode.filter((path) => !inChild.has(path) && !WITHHELD.some((pattern) => pattern.test(path))),
    [],
  );
  t.ok(inNode.length > 1500, `${inNode.length} members`);
});

t.test('nothing that a plugin reaches can be changed but what it registers with', async (t) => {
  // Its text decides what iterates arrays.
  const assigning = testChild(t, jail);
  await assigning.load(bundleOf(`${EVALUATOR} const { iterator } = Symbol;`));
  for (const inChild of [child, assigning]) {
    const { seen, open } = (await evaluate(LIST_UNFROZEN, inChild)) as { seen: number; open: readonly string[] };
    t.same(
      open.filter((path) => !Object.hasOwn(pluginGlobals, path)),
      [],
    );
    t.ok(seen > 2_700, `${seen} objects`);
  }
});

/** Reads a global at each depth of the stack, from the deepest on, until that succeeds. Answers how often it was tried. */
const readWithLittleStack = (name: string): string => `(() => {
  let tries = 0;
  let isRead = false;
  const descend = () => {
    try { descend(); } catch {}
    if (isRead) return;
    tries += 1;
    globalThis[${JSON.stringify(name)}];
    isRead = true;
  };
  descend();
  return tries;
})()`;

t.test('a global that a bundle first reads with an almost full stack is complete and frozen', async (t) => {
  for (const name of ['Temporal', 'Intl', 'Response']) {
    const deep = testChild(t, jail);
    await deep.load(bundleOf(EVALUATOR));
    t.ok(Number(await evaluate(readWithLittleStack(name), deep)) > 1, `${name}: the first reads fail`);
    const { open } = (await evaluate(LIST_UNFROZEN, deep)) as { open: readonly string[] };
    t.same(
      open.filter((path) => !Object.hasOwn(pluginGlobals, path)),
      [],
      name,
    );
    const clock = 'Array.from({ length: 20 }, () => Number(Temporal.Now.instant().epochNanoseconds % 1000000n))';
    t.same(await evaluate(clock, deep), Array(20).fill(0), `${name}: the clock is as coarse as Date.now()`);
  }
});

t.test('nor the classes of the errors that the globals throw', async (t) => {
  const { calls, open } = (await evaluate(listOpenErrors(Object.keys(platformGlobals)))) as {
    calls: number;
    open: readonly string[];
  };
  t.same(open, []);
  t.ok(calls > 1_000, `${calls} calls`);
});

t.test('nor what every grant and every handler gives out', async (t) => {
  const examples = Object.fromEntries(
    (Object.keys(hostExamples) as HostCallName[]).map((name) => [name, listExampleArguments(name)]),
  );
  const child = testChild(t, await testJail(t), {
    onHostCall: async ({ member, args }) => {
      if (/refuse/.test(String(args))) throw new HostCallRefusal('failed', 'the host refuses this call');
      if (member === 'http.openBody') return { ...hostExamples['http.fetch'].result, isOpen: true };
      if (member === 'http.readBody') return { bytes: new Uint8Array(), isEnd: true };
      return hostExamples[member as HostCallName].result;
    },
  });
  const keepers = registerKeepers(Object.keys(hooks), Object.keys(events));
  await child.load(bundleOf(`${EVALUATOR}\n${keepers}`, { members: Object.keys(hostCalls), settings: { a: 'b' } }));
  const targets: Target[] = [
    ...Object.keys(hooks).map((name): Target => ({ kind: 'hook', name })),
    ...Object.keys(events).map((name): Target => ({ kind: 'event', name })),
    ...(['tools', 'commands', 'providers'] as const).map((kind): Target => ({ kind, name: 'kept' })),
    ...['receive', 'send', 'handshake'].map((name): Target => ({ kind: 'channel', name })),
  ];
  const request = { method: 'POST', headers: { a: 'b' }, query: {}, bodyBytes: Uint8Array.of(123, 125) };
  const context = {
    settings: { a: 'b' },
    arguments: { a: [1] },
    input: 'x',
    request,
    message: { text: 'x', attachments: [] },
  };
  for (const look of [1, 2])
    for (const target of targets)
      await child.invoke(target, context, {
        invocationId: `${look}-${target.kind}-${target.name}`,
        deadlineAt: Date.now() + 5_000,
      });
  const outcome = await callTool(child, 'run', { code: listUnfrozenGrants(examples) });
  t.equal(outcome.outcome, 'answered', JSON.stringify(outcome));
  const { seen, handled, open, foreign } = JSON.parse(String(outcome.outcome === 'answered' && outcome.answer));
  t.same({ open, foreign, handled }, { open: [], foreign: [], handled: targets.length });
  t.ok(seen > 700, `${seen} objects`);
});

/**
 * The length of an array cannot become an accessor, and what iterates arrays and strings would make V8 slower as one. The functions
 * that `Error.prepareStackTrace` gives out are not shared.
 */
const UNASSIGNABLE = new Set([
  'Array.prototype.length',
  'Array.prototype.Symbol(Symbol.iterator)',
  'String.prototype.Symbol(Symbol.iterator)',
  'arrayIterator.[[Prototype]].next',
  'stringIterator.[[Prototype]].next',
  'Error.prepareStackTrace.length',
  'Error.prepareStackTrace.name',
]);

t.test('no path leads to the constructor of errors that ses replaced', async (t) => {
  const members = (await evaluate(
    listMembers(globalNames.filter((name) => !['globalThis', 'self', 'global'].includes(name))),
  )) as string[];
  t.same(
    members.filter((path) => path.endsWith('.stackTraceLimit')),
    ['Error.stackTraceLimit'],
  );
});

t.test('every inherited name can be assigned on an own object that can take it in Node', async (t) => {
  const inNode = new Set<string>(runInNewContext(listUnassignable(language)));
  const inChild = (await evaluate(listUnassignable(language))) as string[];
  t.same(
    inChild.filter((path) => !inNode.has(path) && !UNASSIGNABLE.has(path)),
    [],
  );
});

t.test('V8 takes its short ways to iterate arrays and strings', async (t) => {
  const realm = new URL('../../sandbox-child/realm.ts', import.meta.url);
  const run = `
    import { lockRealm } from ${JSON.stringify(realm.href)};
    lockRealm().evaluate('for (const item of [1]);', 'plugin.js', {}, {});
    const read = new Function('return [%ArrayIteratorProtector(), %StringIteratorProtector()]');
    console.log(JSON.stringify(read()));`;
  const flags = ['--allow-natives-syntax', '--input-type=module', '-e', run];
  const { stdout } = await promisify(execFile)(process.execPath, flags);
  t.same(JSON.parse(stdout), [true, true]);
});

t.test('a custom error keeps its name, message and frames when it captures its stack', async (t) => {
  const [header, frame, assigned, ofObject] = (await evaluate(`(() => {
    class RefusedError extends Error {
      constructor(message) {
        super(message);
        this.name = 'RefusedError';
        Error.captureStackTrace(this, RefusedError);
      }
    }
    const makeError = () => new RefusedError('not today');
    const error = makeError();
    const [header, frame] = error.stack.split('\\n');
    error.stack = 'assigned';
    const object = {};
    Error.captureStackTrace(object);
    return [header, frame, error.stack, object.stack];
  })()`)) as [string, string, string, string];
  t.equal(header, 'RefusedError: not today');
  t.match(frame, /^ +at makeError /);
  t.equal(assigned, 'assigned');
  t.match(ofObject, /\n +at /);
});

t.test('an assignment behaves as the language says', async (t) => {
  const cases: Readonly<Record<string, unknown>> = {
    'Object.keys(Object.assign({}, JSON.parse(\'{"constructor":1,"valueOf":2}\')))': ['constructor', 'valueOf'],
    "(() => { const words = {}; for (const word of ['constructor', 'toString']) words[word] = 1; return words; })()": {
      constructor: 1,
      toString: 1,
    },
    '(() => { const own = Object.create([]); own.map = 1; own.map = 2; return Object.getOwnPropertyDescriptor(own, "map"); })()':
      {
        value: 2,
        writable: true,
        enumerable: true,
        configurable: true,
      },
    '(() => { class Base { set toString(value) { this.set = value; } } const own = new Base(); own.toString = 1; return own; })()':
      { set: 1 },
    '(() => { const own = {}; own.__proto__ = { inherited: 1 }; return [own.inherited, Object.keys(own)]; })()': [
      1,
      [],
    ],
    '(() => { const frozen = Object.freeze({}); try { frozen.toString = 1; } catch (error) { return error.name; } })()':
      'TypeError',
    '(() => { try { "text".toString = 1; } catch (error) { return error.name; } })()': 'TypeError',
    '(() => { try { Object.prototype.toString = 1; } catch (error) { return error.name; } })()': 'TypeError',
    '(() => { try { Reflect.set(Object.prototype, "toString", 1, {}); return "ok"; } catch (error) { return error.name; } })()':
      'ok',
    'new Date().constructor === Date && (() => 0).constructor === Function': true,
    'Function("return this")() === globalThis && self === globalThis && global === globalThis': true,
    'new (Function("this.own = 1"))().own': 1,
    'Function("return this").call({ own: 1 }).own': 1,
    'Function("a", "b", "return a + b + this.c").bind({ c: 3 }, 1)(2)': 6,
    // Text after the parameters must not continue them.
    '(() => { const seen = []; const log = (text) => ({ toString() { seen.push(text); return text; } }); Function(log("a"), log("b"), log("return a")); return seen; })()':
      ['a', 'b', 'return a'],
    '(() => { const Made = Function("this.own = 1"); return new Made().constructor === Made; })()': true,
    '(() => { const AsyncFunction = (async () => 0).constructor; return [AsyncFunction.name, AsyncFunction.length, Object.getPrototypeOf(AsyncFunction) === Function]; })()':
      ['AsyncFunction', 1, true],
    'new ((async () => 0).constructor)("a", "return await a")(Promise.resolve(3))': 3,
    '[...(function* () {}).constructor("a", "yield a; yield 2")(1)]': [1, 2],
    'Array.fromAsync((async function* () {}).constructor("yield await 1")())': [1],
    '(() => { try { (async () => 0).constructor("/*", "*/) {"); } catch (error) { return error.name; } })()':
      'SyntaxError',
    'Object.getPrototypeOf(Reflect.construct(Function, ["return 1"], Object.assign(function () {}, { prototype: 1 }))) === Function.prototype': true,
    '(() => { try { return (() => 0).caller; } catch (error) { return error.name; } })()': 'TypeError',
    '(() => { const pattern = /a/g; return RegExp(pattern) === pattern && new RegExp(pattern) !== pattern; })()': true,
    'Object.getOwnPropertyNames(RegExp).sort()': ['escape', 'length', 'name', 'prototype'],
    '(() => { const { value, ...rest } = Object.getOwnPropertyDescriptor(Array.prototype, "map"); return [value === [].map, rest]; })()':
      [true, { writable: true, enumerable: false, configurable: true }],
    '(() => { const copy = Object.create(null, Object.getOwnPropertyDescriptors(Object.prototype)); copy.toString = 1; return [copy.toString, typeof copy.valueOf]; })()':
      [1, 'function'],
    'Reflect.getOwnPropertyDescriptor(Object.prototype, "toString").configurable': false,
    'typeof misspelt': 'undefined',
    // A child collects its garbage when it is idle.
    'typeof gc': 'undefined',
    '(() => { try { return misspelt; } catch (error) { return [error.name, error.message]; } })()': [
      'ReferenceError',
      'misspelt is not defined',
    ],
    '(() => { try { misspelt = 1; } catch (error) { return [error.name, error.message]; } })()': [
      'ReferenceError',
      'misspelt is not defined',
    ],
    '(0, eval)("var local = 1; local"), typeof globalThis.local': 'undefined',
    '(() => { globalThis.declared = 1; try { return declared; } finally { delete globalThis.declared; } })()': 1,
    'Temporal.Now.instant().epochNanoseconds % 1000000n === 0n': true,
    'Temporal.Now.zonedDateTimeISO("Asia/Tokyo").timeZoneId': 'Asia/Tokyo',
    'Temporal.Now.plainDateISO.length': 0,
    'crypto.subtle.digest("none", new Uint8Array(1)).catch((error) => [error.name, error instanceof DOMException, error instanceof Error])':
      ['NotSupportedError', true, true],
    '(() => { try { crypto.getRandomValues(new Uint8Array(1e6)); } catch (error) { return [error.name, error.constructor === DOMException]; } })()':
      ['QuotaExceededError', true],
    '(async () => { const key = await crypto.subtle.generateKey({ name: "HMAC", hash: "SHA-256" }, true, ["sign", "verify"]); const made = await crypto.subtle.sign("HMAC", key, new Uint8Array(2)); return [key.type, key.algorithm.name, key.usages.length, await crypto.subtle.verify("HMAC", key, made, new Uint8Array(2)), (await crypto.subtle.exportKey("jwk", key)).kty]; })()':
      ['secret', 'HMAC', 2, true, 'oct'],
    'Object.getOwnPropertyDescriptor(Iterator.prototype, "constructor").get.call()  === Iterator': true,
    // The original constructor gives out the frames of the program around the realm.
    '[SuppressedError, DOMException, TypeError].every((made) => Object.getPrototypeOf(made) === Error)': true,
  };
  for (const [code, expected] of Object.entries(cases)) t.same(await evaluate(code), expected, code);
});
