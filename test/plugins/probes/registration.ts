/** Bundles that lie about what they register. An escape: one more tool than was recorded can be called. */
import { type Rows, rowsOf } from './probe.ts';

const LATE = `{ description: 'late', parameters: {}, handler: () => 'late' }`;

const bundles: Rows = {
  'a tool more than recorded': `tools.late = ${LATE};`,
  'a tool registered by a timer': `setTimeout(() => { tools.late = ${LATE}; }, 1);`,
  'a tool registered by a microtask': `queueMicrotask(() => { tools.late = ${LATE}; });`,
  'a tool registered by a call': `const run = tools.run.handler; tools.run = { description: 'test', parameters: {}, handler: (a, c) => { tools.late = ${LATE}; return run(a, c); } };`,
  'a tool registered after a date': `if (Date.now() > 1) tools.late = ${LATE};`,
  'a tool on the prototype of tools': `Object.getPrototypeOf(tools).late = ${LATE};`,
  'another prototype of tools': `Object.setPrototypeOf(tools, { late: ${LATE} });`,
  'a tool by defineProperty': `Object.defineProperty(tools, 'late', { value: ${LATE}, enumerable: false });`,
  'a tool by a getter': `Object.defineProperty(tools, 'late', { get: () => (${LATE}) });`,
  'a tool named __proto__': `tools['__proto__'] = { late: ${LATE} };`,
  'a tool on Object.prototype': `Object.prototype.late = ${LATE};`,
  'a handler by a getter': `tools.late = { description: 'late', parameters: {}, get handler() { return () => 'late'; } };`,
  'a proxy for a tool': `tools.late = new Proxy({}, { get: (t, k) => (${LATE})[k], ownKeys: () => [], has: () => true });`,
  'tools replaced': `globalThis.tools = { late: ${LATE} };`,
  'a hook that was not recorded': `middleware.systemPrompt = () => 'late'; tools.late = ${LATE};`,
  'an unknown hook': `middleware.nonsense = () => 'late'; tools.late = ${LATE};`,
  'a thousand tools': `for (let i = 0; i < 1000; i += 1) tools['late' + (i || '')] = ${LATE};`,
  'a tool with a schema of 1 MB': `tools.late = { description: 'late', parameters: { properties: Object.fromEntries(Array.from({ length: 5e4 }, (_, i) => ['p' + i, {}])) }, handler: () => 'late' };`,
  'a tool with a circular schema': `const s = {}; s.s = s; tools.late = { description: 'late', parameters: s, handler: () => 'late' };`,
  'a tool with a schema that changes': `let n = 0; tools.late = { description: 'late', get parameters() { n += 1; return n > 1 ? {} : { type: 'object' }; }, handler: () => 'late' };`,
  'a description of 10 MB': `tools.late = { description: 'x'.repeat(1e7), parameters: {}, handler: () => 'late' };`,
  'a name with a NUL': `tools['late\\u0000'] = ${LATE}; tools.late = ${LATE};`,
  'an exception after registering': `tools.late = ${LATE}; throw new Error('x');`,
  'a load that never ends': `tools.late = ${LATE}; for (;;);`,
  'a load that fills the heap': `tools.late = ${LATE}; const all = []; for (;;) all.push(new Array(1e4).fill({}));`,
  'a load that logs for ever': `tools.late = ${LATE}; for (;;) host.log('x');`,
  'a load that calls the host': `host.secrets.get('x').catch(() => 0); tools.late = ${LATE};`,
  'a load that leaves': `tools.late = ${LATE}; process.exit(0);`,
  'a load that returns': `tools.late = ${LATE}; return;`,
};

export const registration = rowsOf(bundles, { alone: true });
