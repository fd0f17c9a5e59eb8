/** Loading a bundle: registration, invalid registrations, and code that misbehaves while it loads. */
import { setTimeout as sleep } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { openRegistry } from '../../../sandbox-child/registry.ts';
import type { Child } from '../../../supervisor/children/child.ts';
import { introspect } from '../../../supervisor/children/introspect.ts';
import { NotReadyError } from '../../../supervisor/children/start-failure.ts';
import { amount, isSoak } from '../../runner/soak.ts';
import { bundleOf, callTool, isAlive, testChild, testJail, toolOf } from './jailed-child.ts';

const jail = await testJail(t);
const read = (bundle: string) => introspect(jail, bundle, 'weather/index.js');

t.test('everything that can be registered is found', async (t) => {
  const { registrations, places } = await read(`
    middleware.systemPrompt = (ctx) => ctx.systemPrompt;
    middleware.systemPromt = () => 0;
    compaction.summarize = () => 's';
    events.pluginInstalled = () => 0;
    tools.dice = { description: 'Rolls', parameters: { type: 'object' }, handler: () => 4 };
    commands.hello = { description: 'Greets', handler: () => ({ text: 'hi' }) };
    providers.acme = { models: [{ id: 'm', name: 'M' }], chat: () => 0 };
    channel.receive = () => 0;
    channel.recieve = () => 0;
    channel.handshake = () => 0;
    channel.handshakeOn = { jsonType: 'url_verification' };
    Promise.resolve().then(() => { events.sessionStarted = () => 0; });`);
  t.same(registrations, {
    hooks: ['middleware.systemPrompt', 'middleware.systemPromt', 'compaction.summarize'],
    events: ['pluginInstalled', 'sessionStarted'],
    tools: { dice: { description: 'Rolls', parameters: { type: 'object' } } },
    commands: { hello: { description: 'Greets' } },
    providers: { acme: { models: [{ id: 'm', name: 'M' }] } },
    channel: { receive: true, send: false, handshake: true, handshakeOn: { jsonType: 'url_verification' } },
  });
  t.match(places['middleware.systemPromt'], 'weather/index.js:3:');
  t.match(places['channel.recieve'], 'weather/index.js:10:');
});

t.test('fetch exists while a package that declares hosts is read, and reaches nothing', async (t) => {
  const code =
    'const send = fetch; if (typeof send === "function") events.pluginInstalled = () => send("https://example.com");';
  t.same((await introspect(jail, code, 'index.js', { hasFetch: true })).registrations.events, ['pluginInstalled']);
  await t.rejects(introspect(jail, 'fetch("https://example.com");', 'index.js'), {
    message: /is not (a function|defined)/,
  });
});

t.test('what the top-level code does after its first await is refused with its line', async (t) => {
  const guard = 'middleware.inboundMessage = () => 0;';
  const faults: readonly [code: string, message: RegExp][] = [
    [`async function main() {\n  await host.assets.readText("words.txt"); ${guard}\n}\nmain();`, /reading 'readText'/],
    ['0;\nPromise.reject(new Error("lost"));', /^lost$/],
    [
      '0;\nfetch("https://example.com").catch(() => 0);',
      /^fetch is called while the code loads: call it in a handler$/,
    ],
    [
      `(async () => {\nawait new Promise((resolve) => setTimeout(resolve, 50)); ${guard} })();`,
      /^middleware is closed/,
    ],
    [
      `(async () => {\nawait crypto.subtle.digest("SHA-256", new Uint8Array(3)); ${guard} })();`,
      /^middleware is closed/,
    ],
  ];
  /** The same by other ways to come after the first await. */
  const further: readonly [code: string, message: RegExp][] = [
    [
      '0;\nhost.http.fetch("https://example.com").catch(() => 0);',
      /^host\.http\.fetch is called while the code loads: call it in a handler$/,
    ],
    [`setImmediate(() => setImmediate(() => {\n${guard} }));`, /^middleware is closed/],
    [`setImmediate(() => {\n${guard} });`, /^middleware is closed/],
    [
      `(async () => {\nawait crypto.subtle.generateKey({ name: "HMAC", hash: "SHA-256" }, false, ["sign"]); ${guard} })();`,
      /^middleware is closed/,
    ],
    [
      '(async () => { await crypto.subtle.digest("SHA-256", new Uint8Array(3));\nthrow new Error("lost"); })();',
      /^lost$/,
    ],
  ];
  for (const [code, message] of amount({ quick: faults, soak: [...faults, ...further] })) {
    const error = await introspect(jail, code, 'index.js', { hasFetch: true }).catch((thrown) => thrown);
    t.match(error, { kind: 'load', message, pluginStack: /index\.js:2:/ }, code);
  }
  const { registrations } = await read(`const later = setInterval(() => {}, 60_000); setTimeout(() => 0, 1); ${guard}`);
  t.same(registrations.hooks, ['middleware.inboundMessage']);
});

const mistakes: Readonly<Record<string, readonly [code: string, message: RegExp]>> = {
  'a syntax error': ['let a = ;', /Unexpected token/],
  'an exception': ['\n\nthrow new Error("at load");', /at load/],
  'a global that does not exist': ['fetch("http://a");', /fetch is not a function/],
  'a handler that is none': ['middleware.systemPrompt = "hello";', /middleware.systemPrompt must be a function/],
  'a tool without a handler': ['tools.x = { description: "d", parameters: {} };', /tools.x.handler must be a function/],
  'a tool without a description': ['tools.x = { parameters: {}, handler() {} };', /tools.x.description is missing/],
  'a tool that is nothing': ['tools.x = null;', /tools.x must be an object/],
  'a schema that is not JSON': [
    'const a = {}; a.a = a; tools.x = { description: "d", parameters: a, handler() {} };',
    /tools.x.parameters must be JSON/,
  ],
  'a getter that throws': [
    'tools.x = { get description() { throw new Error("trap"); }, parameters: {}, handler() {} };',
    /trap/,
  ],
  'a thousand and one tools': ['for (let i = 0; i < 1001; i += 1) tools["t" + i] = {};', /at most 1000 items/],
  'too large a schema': [
    'tools.x = { description: "d", parameters: { a: "x".repeat(5e6) }, handler() {} };',
    /the limit is 4194304/,
  ],
  'a second handler for a hook': [
    'middleware.inboundMessage = () => 0; middleware.inboundMessage = () => 1;',
    /middleware.inboundMessage is assigned already/,
  ],
  'a second tool of the same name': [
    `${toolOf('return 1')} Object.defineProperty(tools, 'run', { value: tools.run });`,
    /tools.run is assigned already/,
  ],
  'a group that is assigned': ['middleware = { inboundMessage() {} };', /middleware cannot be assigned itself/],
  'a group that is assigned through globalThis': ['globalThis.channel = {};', /channel cannot be assigned itself/],
  'dynamic import': ['import("node:fs");', /import/],
  'a symbol': ['tools[Symbol.iterator] = {};', /names only/],
};
/** Mistakes that need the child's realm or its messages. Without a child, the quick run has the registry find the others. */
const IN_CHILD = [
  ...['a syntax error', 'a global that does not exist', 'too large a schema', 'dynamic import'],
  ...['a group that is assigned', 'a group that is assigned through globalThis'],
];
function readWithoutChild(code: string): void {
  const registry = openRegistry();
  registry.refuseRepeats();
  runInNewContext(code, { ...registry.globals });
  registry.seal(null);
}
for (const [name, [code, message]] of Object.entries(mistakes)) {
  t.test(name, async (t) => {
    if (isSoak() || IN_CHILD.includes(name)) await t.rejects(read(code), { kind: 'load', message });
    else t.throws(() => readWithoutChild(code), { message });
  });
}

t.test('the stack of a mistake names the author’s line', async (t) => {
  const error = await read('\n\n  throw new Error("at load");').catch((thrown) => thrown);
  t.match(error.pluginStack, 'weather/index.js:3:9');
  t.notMatch(error.pluginStack, /child\.cjs|eval at/);
  const late = await read('\n\n  tools.x = { parameters: {}, handler() {} };').catch((thrown) => thrown);
  t.match(late.pluginStack, 'weather/index.js:3:');
});

t.test(
  'a second handler and an assigned group are refused with the line, and published versions start with them',
  async (t) => {
    const hook = '\n\n  middleware.systemPrompt = () => "second";';
    const first = 'middleware.systemPrompt = () => "first";';
    const { registrations: expected } = await read(first);
    for (const code of [first + hook, `\n\n  middleware = {}; ${first}`]) {
      const error = await read(code).catch((thrown) => thrown);
      t.match(error.pluginStack, /^[^\n]*\n +at (?:\S+ \()?weather\/index.js:3:/);
      await t.resolves(testChild(t, jail).load(bundleOf(code, { expected })));
    }
  },
);

t.test('a text that cannot be stored is refused with the line of its assignment', async (t) => {
  const tool = (fields: string): string =>
    `\n\n  tools.x = { description: 'd', parameters: {}, handler() {}, ${fields} };`;
  const faults: readonly [code: string, field: RegExp][] = [
    [tool('description: "a\\0b"'), /^tools\.x\.description must not contain U\+0000/],
    [tool('description: "\\ud800"'), /^tools\.x\.description must not contain/],
    [tool(`description: "${'x'.repeat(600)}\\0"`), /^tools\.x\.description must not contain/],
    [tool('parameters: { properties: { "a\\0": {} } }'), /^tools\.x\.parameters\.properties\.a\ufffd must not contain/],
    [tool('parameters: { enum: [1, "\\udc00"] }'), /^tools\.x\.parameters\.enum\.1 must not contain/],
    ['\n\n  throw new Error("a\\0b \\ud800 \\\\u0000");', /^a\ufffdb \ufffd \\u0000$/],
  ];
  for (const [code, message] of amount({ quick: faults.slice(0, 2), soak: faults })) {
    const error = await read(code).catch((thrown) => thrown);
    t.match(error, { kind: 'load', message });
    t.match(error.pluginStack, 'weather/index.js:3:');
    t.ok(error.pluginStack.isWellFormed() && !error.pluginStack.includes('\0'));
  }
});

t.test('a thrown value that is not an Error is said to be none', async (t) => {
  const thrown = [
    ['{ a: 1 }', '{"a":1}'],
    ['null', 'null'],
    ['"no key"', 'no key'],
  ];
  for (const [value, shown] of amount({ quick: thrown.slice(0, 1), soak: thrown })) {
    await t.rejects(read(`throw ${value};`), {
      kind: 'load',
      message: `threw a value that is not an Error, so its line is unknown: ${shown}`,
    });
  }
  await t.rejects(read('throw new DOMException("gone", "AbortError");'), { kind: 'load', message: 'gone' });
});

t.test('names that objects have anyway are names like any other', async (t) => {
  const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
  const code = names.map(
    (name) => `tools[${JSON.stringify(name)}] = { description: 'd', parameters: {}, handler: () => 1 };`,
  );
  const { places } = await read(code.join('\n'));
  for (const name of names) t.ok(Object.hasOwn(places, `tools.${name}`), name);
  t.equal(({} as { description?: string }).description, undefined);
});

t.test('registration ends with the first turn', async (t) => {
  const child = testChild(t, jail);
  const late = toolOf('try { tools.late = {}; } catch (error) { return error.message; }');
  const { registrations: expected } = await read(late);
  await child.load(bundleOf(`${late} setTimeout(() => { middleware.systemPrompt = () => 0; }, 1);`, { expected }));
  t.match(await callTool(child, 'run'), { answer: /tools is closed/ });
  while (child.lines.length === 0) await sleep(5);
  t.match(child.lines, [{ level: 'error', message: /middleware is closed/ }]);
});

t.test('a child may register what its version had registered, or less, and nothing else', async (t) => {
  const { registrations: expected } = await read(toolOf('return 1'));
  const more = testChild(t, jail);
  const fresh = `${toolOf('return 1')} events.pluginInstalled = () => 0;`;
  const refused = {
    kind: 'load',
    message: /events.pluginInstalled was not registered when this version was published/,
  };
  await t.rejects(more.load(bundleOf(fresh, { expected })), refused);
  const less = testChild(t, jail);
  t.match(await less.load(bundleOf('0', { expected })), { registrations: { tools: {} } });
  t.match(await callTool(less, 'run'), { outcome: 'failed', message: 'tools run is not registered' });
});

t.test('nothing is granted while a package is read', async (t) => {
  const { places } = await read(
    'if (Object.keys(host).join() === "log,settings") middleware.ok = () => 0; host.log("hi");',
  );
  t.ok(Object.hasOwn(places, 'middleware.ok'));
});

t.test('a child that does not get ready or is killed from outside says nothing about its package', async (t) => {
  const broken = await testJail(t, { program: 'process.exit(1);' });
  await t.rejects(introspect(broken, '', 'index.js'), NotReadyError);
  const onStart = (child: Child) => void child.ready.then(() => process.kill(child.pid, 'SIGKILL'));
  const killed = introspect(jail, 'for (;;);', 'index.js', { onStart });
  await t.rejects(killed, { name: 'ChildError', interrupted: true });
});

for (const [name, code] of Object.entries({
  'an endless loop': 'for (;;);',
  'an endless loop of microtasks': 'const again = () => Promise.resolve().then(again); again();',
})) {
  t.test(`${name} at load`, async (t) => {
    const child = testChild(t, jail);
    await child.ready;
    await t.rejects(child.load(bundleOf(code), 300), {
      kind: 'timeout',
      message: 'loading took longer than its 300 ms: the top-level code did not end',
    });
    t.equal((await child.ended).gone, true);
    t.notOk(isAlive(child.pid));
  });
}
