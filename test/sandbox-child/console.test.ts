/** `console` and `host.log` in a real child: what Node's formats, and nothing that a plugin logs throws. */
import { formatWithOptions } from 'node:util';
import { runInThisContext } from 'node:vm';
import t from 'tap';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../supervisor/children/jailed-child.ts';

const jail = await testJail(t);
const INSPECT = { compact: true, breakLength: Number.POSITIVE_INFINITY, depth: 6, customInspect: false } as const;

/** Lists of arguments, as code. */
const CASES = [
  `'plain', 1, -0, 2n, null, undefined, true, Symbol('s')`,
  `'%s is %d, %i, %f', 'a', '4.5', '4.5', '4.5x', 'rest', { a: 1 }`,
  `'%j %O %c end %%', { a: [1, { b: 2 }] }, { a: 1 }, 'color: red'`,
  `'%s %s %s %s', 1n, null, { a: { b: 1 } }, [1, [2]]`,
  `'%s', new (class Money { toString() { return '5 CHF'; } })()`,
  `'%d %i %f', 2n, Symbol('x'), 'x'`,
  `'100%', 'a %s', '%s'`,
  `'%x %s', 1`,
  `new Map([['a', { b: [1, 2] }], [{ c: 1 }, new Set(['x'])]]), new Map(), new Set()`,
  `{ 'a-b': 1, c: 'it\\'s', d: 'new\\nline', e: [], f: {}, [Symbol('k')]: 1, 1: 'one', __proto__x: 1 }`,
  `{ get a() { return 1; }, set b(x) {}, get c() { return 1; }, set c(x) {} }`,
  `(() => { const o = { name: 'o' }; o.self = o; o.list = [o, { o }]; return o; })()`,
  `Object.create(null), Object.assign(Object.create(null), { a: 1 })`,
  `new (class Point { constructor() { this.x = 1; } })(), new (class Empty {})(), new (class extends Array {})()`,
  `function named() {}, () => {}, class A {}, class B extends Array {}, async () => {}, function* g() {}`,
  `[1, , 3], [, ,], new Array(3), Object.assign([1], { extra: true })`,
  `Array.from({ length: 105 }, (_, i) => i), 'after'`,
  `new Uint8Array([1, 2]), new Date(0), new Date(NaN), /a\\/b/gi`,
  `new Number(1), new String('x'), new Boolean(false), Object(2n)`,
  `{ a: { b: { c: { d: { e: { f: { g: { h: 1 } } } } } } } }`,
  `[[[[[[[[1]]]]]]]], [new Map([[1, { a: 1 }]])]`,
  `"it's", ["it's", 'both \\' and "', '\\u0007\\\\']`,
  `{ constructor: 1, hasOwnProperty: 2, ['__proto__']: 3, toString: null }`,
  `{ [Symbol.toStringTag]: 'Tag', a: 1 }, globalThis.JSON && Math.PI`,
  `new WeakMap(), new WeakSet()`,
  ``,
];

t.test('values are shown as Node shows them', async (t) => {
  const child = testChild(t, jail);
  const calls = CASES.map((args) => `() => console.log(${args})`);
  await child.load(bundleOf(`const calls = [${calls.join(',\n')}]; ${toolOf('for (const call of calls) call();')}`));
  t.match(await callTool(child, 'run'), { outcome: 'answered' });
  for (const [index, args] of CASES.entries()) {
    const values = runInThisContext(`[${args}]`) as unknown[];
    // An array literal drops a trailing comma only, and a hole would be an argument.
    t.equal(child.lines[index]?.message, formatWithOptions(INSPECT, ...values), args);
  }
});

t.test('groups, counters, timers, tables, assertions and traces', async (t) => {
  const child = testChild(t, jail);
  const code = `
    console.table([{ a: 1, b: 'x' }, { a: 2 }, 3]); console.table([{ a: 1, b: 2 }], ['b']); console.table(new Map([['k', 1]])); console.table('text');
    console.group('outer'); console.warn('in\\nside'); console.groupCollapsed(); console.error('deep'); console.groupEnd(); console.groupEnd(); console.groupEnd();
    console.count(); console.count(); console.count('constructor'); console.countReset(); console.count(); console.countReset('none');
    console.time('t'); console.timeLog('t', 1, 'x'); console.timeEnd('t'); console.timeEnd('t'); console.time('t'); console.time('t');
    console.assert(true, 'not shown'); console.assert(false); console.assert(0, 'no %s', 'way'); console.assert('', { a: 1 });
    console.dir({ a: { b: 1 } }, { depth: 0 }); console.dir({ a: { b: 1 } }); console.clear();
    console.log(new Error('plain'), Object.assign(new Error('odd'), { code: 'E' }), new Error('why', { cause: 1 })); console.log('%s', new TypeError('as text'));
    (function author() { console.trace('here %d', 1); })(); return Object.isFrozen(console);`;
  await child.load(bundleOf(toolOf(code)));
  t.match(await callTool(child, 'run'), { answer: true });
  const lines = child.lines.map(({ level, message }) => `${level} ${message}`);
  const table = (...rows: string[]) => `info ${rows.join('\n')}`;
  t.same(
    lines.slice(0, 24).map((line) => line.replace(/\d+ms/, 'Nms')),
    [
      table(
        '┌─────────┬───┬─────┬────────┐',
        '│ (index) │ a │ b   │ Values │',
        '├─────────┼───┼─────┼────────┤',
        "│ 0       │ 1 │ 'x' │        │",
        '│ 1       │ 2 │     │        │',
        '│ 2       │   │     │ 3      │',
        '└─────────┴───┴─────┴────────┘',
      ),
      table('┌─────────┬───┐', '│ (index) │ b │', '├─────────┼───┤', '│ 0       │ 2 │', '└─────────┴───┘'),
      table(
        '┌───────────────────┬─────┬────────┐',
        '│ (iteration index) │ Key │ Values │',
        '├───────────────────┼─────┼────────┤',
        "│ 0                 │ 'k' │ 1      │",
        '└───────────────────┴─────┴────────┘',
      ),
      'info text',
      'info outer',
      'warn   in\n  side',
      'error     deep',
      ...['info default: 1', 'info default: 2', 'info constructor: 1', 'info default: 1'],
      'warn The counter “none” does not exist',
      ...['info t: Nms 1 x', 'info t: Nms', 'warn The timer “t” was not started', 'warn The timer “t” runs already'],
      ...['error Assertion failed', 'error Assertion failed: no way', 'error Assertion failed: { a: 1 }'],
      ...['info { a: [Object] }', 'info { a: { b: 1 } }'],
      lines[21],
      lines[22],
      lines[23],
    ],
  );
  t.match(
    lines[21],
    /^info Error: plain\n +at .*plugin\.js.*\{ Error: odd\n.*, code: 'E' \} \{ Error: why\n.*, \[cause\]: 1 \}$/s,
  );
  t.match(lines[22], /^info TypeError: as text\n/);
  t.match(lines[23], /^debug Trace: here 1\n +at author \(plugin\.js:/);
  t.notMatch(lines[23], /child\.cjs/);
});

t.test('nothing that a plugin logs throws', async (t) => {
  const child = testChild(t, jail);
  const code = `
    const boom = () => { throw new Error('boom'); };
    const proxy = new Proxy({}, { get: boom, ownKeys: boom, getPrototypeOf: boom, has: boom, getOwnPropertyDescriptor: boom });
    const { proxy: revoked, revoke } = Proxy.revocable({}, {}); revoke();
    const sparse = Array(1e9);
    const hostile = [proxy, revoked, { toString: boom, valueOf: boom, toJSON: boom }, { get [Symbol.toStringTag]() { boom(); } }, Object.assign(() => 0, { toString: boom }),
      Object.create({ get constructor() { return boom(); } }), Object.defineProperty(new Error('x'), 'stack', { get: boom }), Object.defineProperty(new Map(), 'size', { get: boom }),
      Object.setPrototypeOf(new Date(), null), Object.create(Date.prototype), Object.create(Map.prototype), Object.create(RegExp.prototype), Object.create(Number.prototype),
      (() => { let deep = {}; for (let i = 0; i < 1e4; i += 1) deep = { deep }; return deep; })(), { ['x'.repeat(1e4)]: 'y'.repeat(1e5) }, sparse, 'z'.repeat(1e5), 1n, Symbol(),
      Object.assign(() => 0, { toJSON: boom }), [1, Object.assign(() => 0, { toJSON: () => 1n })]];
    const thrown = [];
    for (const value of hostile) for (const name of ['log', 'dir', 'table', 'trace', 'count'])
      for (const args of [[value], ['%s %d %i %f %j %o %O', value, value, value, value, value, value, value], [[value], [value]], [{ value }]])
        try { console[name](...args); } catch (error) { thrown.push([name, String(error)]); }
    // JSON of a list of a billion items would fill the heap.
    for (const value of hostile.filter((value) => value !== sparse)) for (const args of [[value], ['text', value], ['text', [{ value }]]])
      try { host.log(...args); } catch (error) { thrown.push(['host.log', String(error)]); }
    console.group(); for (let i = 0; i < 1e4; i += 1) console.group(); console.log('still'); const overflow = () => { console.log({}); overflow(); };
    try { overflow(); } catch {} return thrown;`;
  await child.load(bundleOf(toolOf(code)));
  t.same(await callTool(child, 'run', {}, 30_000), { outcome: 'answered', answer: [] });
  t.ok(child.lines.some(({ message }) => /^ +still$/.test(message)));
});

t.test('the source of a long function is logged as truncated, a short one whole', async (t) => {
  const child = testChild(t, jail);
  const long = `() => "${'x'.repeat(20_000)}"`;
  await child.load(bundleOf(toolOf(`host.log('long', ${long}); host.log('short', () => 1);`)));
  t.match(await callTool(child, 'run'), { outcome: 'answered' });
  t.match(child.lines, [
    { message: 'long', truncated: true },
    { message: 'short', data: '() => 1', truncated: false },
  ]);
});
