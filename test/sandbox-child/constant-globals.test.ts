/** Which globals of the language are constants of a bundle. */
import t from 'tap';
import { findConstantGlobals, mayAssignIterator } from '../../sandbox-child/constant-globals.ts';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../supervisor/children/jailed-child.ts';

const jail = await testJail(t);

const read = [
  'new Date()',
  'Date.now() === 0',
  'x instanceof Date',
  'const dates = { Date }; use({ Date: 1, at: Date })',
  "typeof Date !== 'undefined'",
  'a == Date ? Date : null',
  '(Date) => Date',
  'text === "Date" || names["Date"] === 1',
  'globalThis.other = Date',
];
const replaced = [
  'Date = Fake',
  'Date  =\n  Fake',
  'class A {} var Date=A',
  'globalThis.Date = Fake',
  "self['Date'] = Fake",
  'global["Date" ] &&= Fake',
  "Object.defineProperty(globalThis, 'Date', { value: Fake })",
  'Reflect.defineProperty(self, `Date`, { value: Fake })',
  'new Date(); for (const [name, value] of polyfills) globalThis[name] = value',
  'new Date(); Object.assign(globalThis, { Date: Fake })',
  'new Date(); Object.defineProperties(self, polyfills)',
  'new Date(); Object.defineProperty(global, name, { value })',
  'new Date(); Object.assign(\n    globalThis,\n    { Date: Fake })',
  'new Date(); globalThis\n    [name] ??= Fake',
  "Reflect.set(globalThis, 'Date', Fake)",
  "Object.defineProperty(getGlobal(1, 2), 'Date', { value: Fake })",
];

t.test('a global that the bundle only reads is a constant', async (t) => {
  for (const source of read) t.same(findConstantGlobals(source, ['Date', 'Map']), ['Date'], source);
  t.same(findConstantGlobals('Dated.now(); updateDate()', ['Date', 'Map']), []);
});

t.test('a global that the bundle replaces is not a constant', async (t) => {
  for (const source of replaced) t.same(findConstantGlobals(source, ['Date', 'Map']), [], source);
});

t.test('a plugin that replaces a global uses its own', async (t) => {
  const child = testChild(t, jail);
  const code = "globalThis.Date = class extends Date { static now() { return 1; } }; globalThis['Map'] = 2;";
  await child.load(bundleOf(`${code} ${toolOf('return [Date.now(), Map, typeof Set, Math.max(3, 4)];')}`));
  t.same(await callTool(child, 'run', []), { outcome: 'answered', answer: [1, 2, 'function', 4] });
});

t.test(
  'a bundle that replaces a global by a computed name changes globalThis, and not what the bare name reads',
  async (t) => {
    const child = testChild(t, jail);
    const code = "const target = globalThis; target['Da' + 'te'] = 1;";
    await child.load(bundleOf(`${code} ${toolOf('return [typeof Date, globalThis.Date];')}`));
    t.same(await callTool(child, 'run', []), { outcome: 'answered', answer: ['function', 1] });
  },
);

t.test('a bundle may assign Symbol.iterator unless it only reads, calls or defines it', async (t) => {
  const others = [
    'x[Symbol.iterator]()',
    'x[Symbol.iterator] === y',
    'class A { [Symbol.iterator]() {} }',
    'iterator = 1',
  ];
  for (const source of others) t.equal(mayAssignIterator(source), false, source);
  const assigning = [
    'x[Symbol.iterator] = y',
    'x[Symbol.iterator]=y',
    'const I = Symbol.iterator;',
    'inherit(x, Symbol.iterator)',
    'Object.assign(x, { [Symbol.iterator]: y })',
    'const { iterator } = Symbol; x[iterator] = y',
    "x[Symbol['iterator']] = y",
  ];
  for (const source of assigning) t.equal(mayAssignIterator(source), true, source);
});

t.test('a class that is compiled to ES5 extends Array with an iterator of its own', async (t) => {
  const child = testChild(t, jail);
  const code = `function List() {}
    List.prototype = Object.create(Array.prototype);
    List.prototype[Symbol.iterator] = function* () { yield 8; };
    const own = [1];
    own[Symbol.iterator] = () => [5].values();
    const frozen = () => { Array.prototype[Symbol.iterator] = own[Symbol.iterator]; };`;
  const answer =
    "const list = new List(); try { frozen(); } catch { return [...list, ...own, ...[3], ...'a', Object.isFrozen(Array.prototype)]; }";
  await child.load(bundleOf(`${code} ${toolOf(answer)}`));
  t.same(await callTool(child, 'run', []), { outcome: 'answered', answer: [8, 5, 3, 'a', true] });
});
