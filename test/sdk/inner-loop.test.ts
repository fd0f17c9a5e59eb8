/** The author's inner loop from the command line: a save is live, its log and its errors are seen, everything can be tried. */
import { once } from 'node:events';
import fs from 'node:fs';
import { mkdir, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { type IncomingMessage, type ServerResponse, request as sendRequest } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { connect } from 'node:net';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import CDP from 'chrome-remote-interface';
import t, { type Test } from 'tap';
import { SessionProxy } from '../../conform/runtime/session-proxy.ts';
import { runCommandLine } from '../../sdk/cli/command-line.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { serve } from '../fixtures/listening-server.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { amount, isSoak, soakTest } from '../runner/soak.ts';
import { sharePackage } from './author.ts';
import { saveFile } from './save-file.ts';
import { shareService } from './shared-service.ts';
import { bulkhead, noTools } from './typed.ts';

const SAVES = amount({ quick: 1, soak: 7 });
const { api, url, sessionUrl } = await shareService();
const ian = await api.user('ian');
const home = await temporaryFolder(t);
const env = { HOME: home, BULKHEAD_URL: url, BULKHEAD_SESSION_URL: sessionUrl, BULKHEAD_TOKEN: ian.token };

// biome-ignore lint/suspicious/noExplicitAny: answers of any shape
type Item = any;
interface Running {
  readonly stdin: PassThrough;
  readonly code: Promise<number>;
  readonly items: readonly Item[];
  output(): string;
  /** The next item that fits, from the last one found on. */
  next(fits: (item: Item) => boolean): Promise<Item>;
  interrupt(): void;
}

function start(
  test: Test,
  argv: readonly string[],
  folder = home,
  more: Readonly<Record<string, string>> = {},
): Running {
  const [stop, stdin, items] = [new AbortController(), new PassThrough(), [] as Item[]];
  const faults: string[] = [];
  test.teardown(() => stop.abort());
  let rest = '';
  let output = '';
  const write = (text: string): void => {
    output += text;
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (/^\{.*\}$/.test(line)) items.push(JSON.parse(line));
  };
  const code = runCommandLine([...argv, '--json'], {
    stdin,
    env: { ...env, ...more },
    folder,
    version: '0.0.0',
    signal: stop.signal,
    localTools: noTools,
    stdout: { write },
    stderr: { write: (text: string) => void faults.push(text) },
  });
  let at = 0;
  const next = (fits: (item: Item) => boolean): Promise<Item> =>
    eventually(async () => {
      while (at < items.length) {
        at += 1;
        if (fits(items[at - 1])) return items[at - 1];
      }
      return null;
    }).catch(() => {
      throw new Error(`it did not say that: ${output}${faults.join('')}`);
    });
  return { stdin, code, items, output: () => output, next, interrupt: () => stop.abort() };
}

/** Replaces the system's function also where it was imported by name. */
function replaceWatch(watch: typeof fs.watch): void {
  fs.watch = watch;
  syncBuiltinESMExports();
}

const readme = '---\nname: Adder\ndescription: Adds\n---\n';
const source = (more: number) => `tools.add = {
  description: 'Adds',
  parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] },
  handler: ({ a }: { a: number }) => { host.log('adding'); return String(a + ${more}); },
};
events.sessionStarted = (event) => { host.log('began ' + event.data.sessionId); };
`;
const folder = join(home, 'adder');
await mkdir(folder);
await writeFile(join(folder, 'readme.md'), readme);
const save = (text: string) => saveFile(folder, 'index.ts', text);

/** Asks for a WebSocket and resets the connection, as the system does for a debugger that is killed. */
async function resetUpgrade(address: string): Promise<void> {
  const { host, port, pathname } = new URL(address);
  const socket = connect(Number(port), '127.0.0.1');
  const headers = ['connection: Upgrade', 'upgrade: websocket', 'sec-websocket-version: 13'];
  const request = [
    `GET ${pathname} HTTP/1.1`,
    `host: ${host}`,
    ...headers,
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
    '',
    '',
  ].join('\r\n');
  await new Promise((resolve) => socket.write(request, resolve));
  socket.resetAndDestroy();
  await once(socket, 'close');
}

t.test(
  'dev: a save is live within a second, faults name their file and line, and everything can be tried',
  async (t) => {
    await save(source(0));
    const dev = start(t, ['dev', '--inspect', '--inspect-port', '0'], folder);
    await dev.next(({ saved }) => saved === 'adder');
    const { inspector } = await dev.next(({ inspector }) => String(inspector).startsWith('ws:'));
    const times: number[] = [];
    for (let more = 1; more <= SAVES; more += 1) {
      await save(source(more));
      times.push((await dev.next(({ saved }) => saved === 'adder')).liveMs);
      dev.stdin.write('tool add {"a":1}\n');
      const { answer } = await dev.next(({ played }) => String(played).startsWith('tool'));
      t.match(answer, { content: [{ text: String(1 + more) }] }, `save ${more} answers`);
    }
    times.sort((a, b) => a - b);
    t.comment(`save to live: p50 ${times[Math.floor(SAVES / 2)]} ms of ${times.join(', ')}`);
    // A line may come before the answer.
    const untilLogged = (line: string) => eventually(async () => dev.items.some(({ message }) => message === line));
    await untilLogged('adding');

    dev.stdin.write('fire sessionStarted {"sessionId":"s9"}\n');
    t.match(await dev.next(({ played }) => String(played).startsWith('fire')), { answer: { outcome: 'delivered' } });
    await untilLogged('began s9');
    dev.stdin.write('fire nonsense\n');
    t.match(await dev.next(({ played }) => played === 'fire nonsense'), { error: { message: /sessionStarted/ } });

    await save('tools.add = {\n  oops oops\n};\n');
    const { error } = await dev.next(({ error }) => error?.code === 'invalid_package');
    t.match(error.errors, [{ path: 'index.ts', line: 2 }]);
    await save(source(40));
    await dev.next(({ saved }) => saved === 'adder');

    // One has no answer yet when it resets its connection, the other one has the answer 404.
    await resetUpgrade(inspector);
    await resetUpgrade(`${inspector}0`);
    const debuggerClient = await CDP({ target: inspector, local: true });
    const { result } = await debuggerClient.Runtime.evaluate({ expression: '6 * 7' });
    t.equal(result.value, 42, 'a local debugger reaches the draft');
    await debuggerClient.close();

    dev.interrupt();
    t.equal(await dev.code, 0, 'Ctrl-C is how it ends');
  },
);

soakTest(t, 'dev: a watcher that fails ends it, and the installed version comes back', async (t) => {
  const folder = join(home, 'watched');
  const files = { 'readme.md': readme.replace('Adder', 'Watched'), 'index.ts': source(0) };
  await mkdir(folder);
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
  const { body: plugin } = await ian.post('/plugins', { slug: 'watched', displayName: 'Watched' });
  const texts = Object.entries(files).map(([path, contentText]) => ({ path, contentText }));
  t.equal((await ian.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: texts })).status, 201);
  const { body: installation } = await ian.post('/installations', { slug: 'watched' });
  const readPolicy = async () => (await ian.get(`/installations/${installation.id}`)).body.versionPolicy;
  const systemWatch = fs.watch;
  t.teardown(() => replaceWatch(systemWatch));
  // The system's answer when `fs.inotify.max_user_watches` is reached.
  const refuseWatch = (): never => {
    throw Object.assign(new Error('ENOSPC: System limit for number of file watchers reached'), { code: 'ENOSPC' });
  };
  const advice = /ENOSPC.*`sudo sysctl fs\.inotify\.max_user_watches=524288`.*Then run `bulkhead dev` again/;

  replaceWatch(refuseWatch);
  const early = start(t, ['dev'], folder);
  t.equal(await early.code, 1);
  t.match(early.items.at(-1), { error: { code: 'watch_failed', message: advice } });
  t.equal(await readPolicy(), 'Latest');

  replaceWatch(systemWatch);
  const late = start(t, ['dev'], folder);
  await late.next(({ saved }) => saved === 'watched');
  late.stdin.write('help\n');
  await late.next(({ played }) => played === 'help');
  late.stdin.write('tol count\n');
  t.match(await late.next(({ played }) => played === 'tol count'), {
    answer: /^“tol” is not one of these:\ntool <name>/,
  });
  late.stdin.write('hook outboundMessage {bad\n');
  const { error } = await late.next(({ played }) => played === 'hook outboundMessage {bad');
  t.match(error, { message: /Example: '\{"message":\{"text":"Hello"\}\}'/ });
  t.equal(await readPolicy(), 'Draft');
  replaceWatch(refuseWatch);
  for (const name of ['one', 'two']) await mkdir(join(folder, name));
  t.equal(await late.code, 1);
  t.match(late.items.at(-1), { error: { code: 'watch_failed', message: advice } });
  t.equal(await readPolicy(), 'Latest');
  t.ok(late.stdin.destroyed, 'the keyboard is not read any more, so the process ends');
});

/** Writes a package that says which draft it is when it is installed. */
async function writePackage(slug: string, more = 0): Promise<string> {
  const folder = join(home, slug);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'readme.md'), readme);
  await writeFile(join(folder, 'index.ts'), sayingSource(more));
  return folder;
}
const sayingSource = (more: number): string =>
  `${source(more)}events.pluginInstalled = () => { host.log('installed ' + ${more}); };\n`;
const draftFiles = (more: number) => [
  { path: 'index.ts', contentText: sayingSource(more) },
  { path: 'readme.md', contentText: readme },
];

soakTest(t, 'dev: watches the folder also through a link to it, and nothing behind links in it', async (t) => {
  const folder = await writePackage('linking', 1);
  const [outside, link] = [join(home, 'outside'), join(home, 'linking-link')];
  await mkdir(join(outside, 'deep'), { recursive: true });
  await symlink(outside, join(folder, 'data'));
  await symlink(folder, link);
  const systemWatch = fs.watch;
  t.teardown(() => replaceWatch(systemWatch));
  const watched: string[] = [];
  replaceWatch(((path: string, ...rest: []) => {
    watched.push(path);
    return systemWatch(path, ...rest);
  }) as typeof fs.watch);
  const dev = start(t, ['dev', '--slug', 'linking'], link);
  await dev.next(({ saved }) => saved === 'linking');
  t.ok(watched.includes(folder), watched.join());
  t.same(
    watched.filter((path) => path.startsWith(outside) || path.includes('/data')),
    [],
  );
  await saveFile(folder, 'index.ts', sayingSource(2));
  await dev.next(({ saved }) => saved === 'linking');
  dev.interrupt();
  t.equal(await dev.code, 0);
});

soakTest(t, 'dev: leaves out a file that is larger than a draft may be, and reads no more than that', async (t) => {
  const folder = await writePackage('large', 1);
  await writeFile(join(folder, 'book.txt'), 'x'.repeat(16 * MIB + 1));
  await writeFile(join(folder, 'index.ts'), "import './none.ts';");
  for (const name of ['one.txt', 'two.txt']) await writeFile(join(folder, name), '\n'.repeat(5 * MIB));
  const { output, code, interrupt } = startPlain(t, folder);
  await eventually(() => output.join('').includes('have more than 16 MB as JSON, the most that a draft may have.'));
  await rm(join(folder, 'one.txt'));
  await rm(join(folder, 'two.txt'));
  await eventually(() => output.join('').includes('none.ts'));
  const skipped = 'Skipped binary and large files: book.txt\n';
  t.match(output.join(''), skipped, 'also where the save fails');
  await saveFile(folder, 'index.ts', sayingSource(1));
  await eventually(() => /^live large in/m.test(output.join('')));
  t.equal(output.join('').split(skipped).length, 2, 'once');
  interrupt();
  t.equal(await code, 0);
});

soakTest(t, 'dev: misses no change and no log line of the first save', async (t) => {
  const folder = await writePackage('early', 1);
  const proxy = await SessionProxy.start(url);
  t.teardown(() => proxy.close());
  // The stream opens after the lines of the first start were written.
  proxy.break('refuse', /^GET .*\/plugin-logs\/stream/, 3);
  // The client has read the folder when it sends it.
  const sent = proxy.break('refuse', /^POST .*\/draft$/);
  const dev = start(t, ['dev'], folder, { BULKHEAD_URL: proxy.url });
  await eventually(async () => sent.times === 0);
  await saveFile(folder, 'index.ts', sayingSource(2));
  await dev.next(({ saved }) => saved === 'early');
  await dev.next(({ saved }) => saved === 'early');
  // 2 if the event is delivered after the second save.
  await eventually(() => dev.items.some(({ message }) => /^installed [12]$/.test(message)));
  dev.stdin.write('tool add {"a":1}\n');
  t.match((await dev.next(({ played }) => played)).answer, { content: [{ text: '3' }] });
  const lines = dev.items.flatMap(({ id }) => id ?? []);
  dev.interrupt();
  t.equal(await dev.code, 0);

  const again = start(t, ['dev'], folder);
  await again.next(({ saved }) => saved === 'early');
  again.stdin.write('tool add {"a":1}\n');
  await again.next(({ message }) => message === 'adding');
  t.notOk(
    again.items.some(({ id }) => lines.includes(id)),
    'lines before it began are not printed',
  );
  again.interrupt();
  await again.code;
});

/** Creates a plugin whose drafts a test saves as the console does. */
async function createDrafts(test: Test, slug: string) {
  const { body: plugin } = await ian.post('/plugins', { slug, displayName: slug });
  return {
    plugin,
    async saveElsewhere(more: number): Promise<string> {
      const saved = await ian.post(`/plugins/${plugin.id}/draft`, { files: draftFiles(more) });
      test.equal(saved.status, 200, JSON.stringify(saved.body));
      return saved.body.sourceSha256;
    },
    readDraft: async () => (await ian.get(`/plugins/${plugin.id}`)).body.draft.sourceSha256,
  };
}
const DRAFT_REFUSAL = {
  code: 'draft_changed',
  message: /saved at .*, is not the one that this `dev` saved last\..*type `replace`/,
};

t.test('dev: replaces a draft that was saved elsewhere only where the author types it', async (t) => {
  const folder = await writePackage('shared', 1);
  const { saveElsewhere, readDraft } = await createDrafts(t, 'shared');
  const inConsole = await saveElsewhere(10);

  const dev = start(t, ['dev'], folder);
  t.match(await dev.next(({ error }) => error), { error: DRAFT_REFUSAL });
  t.equal(await readDraft(), inConsole, 'the first save leaves it');
  dev.stdin.write('replace\n');
  await dev.next(({ saved }) => saved === 'shared');
  const inFolder = await readDraft();
  t.not(inFolder, inConsole);

  const meanwhile = await saveElsewhere(10);
  await saveFile(folder, 'index.ts', sayingSource(2));
  t.match(await dev.next(({ error }) => error), { error: DRAFT_REFUSAL });
  t.equal(await readDraft(), meanwhile, 'a later save leaves it, too');
  dev.interrupt();
  t.equal(await dev.code, 0);
});

soakTest(t, 'dev: `replace` replaces one refused draft, and no draft is refused without need', async (t) => {
  const slug = 'replaced';
  const folder = await writePackage(slug, 1);
  const { plugin, saveElsewhere, readDraft } = await createDrafts(t, slug);
  await saveElsewhere(20);
  const dev = start(t, ['dev'], folder);
  t.match(await dev.next(({ error }) => error), { error: DRAFT_REFUSAL });
  await saveFile(folder, 'index.ts', '{');
  await dev.next(({ error }) => error?.code === 'invalid_package');
  dev.stdin.write('replace\n');
  await dev.next(({ error }) => error?.code === 'invalid_package');
  const later = await saveElsewhere(25);
  await saveFile(folder, 'index.ts', sayingSource(2));
  t.match(await dev.next(({ error }) => error), { error: DRAFT_REFUSAL });
  t.equal(await readDraft(), later, 'a draft that was saved after `replace` is left, too');
  dev.stdin.write('replace\n');
  await dev.next(({ saved }) => saved === slug);
  dev.stdin.write('replace\n');
  await dev.next(({ saved }) => saved === slug);
  const last = await saveElsewhere(28);
  await saveFile(folder, 'index.ts', sayingSource(3));
  t.match(await dev.next(({ error }) => error), { error: DRAFT_REFUSAL });
  t.equal(await readDraft(), last, '`replace` without a refusal allows nothing later');
  dev.stdin.write('replace\n');
  await dev.next(({ saved }) => saved === slug);
  dev.interrupt();
  t.equal(await dev.code, 0);

  await saveFile(folder, 'index.ts', sayingSource(4));
  const own = start(t, ['dev'], folder);
  await own.next(({ saved }) => saved === slug);
  t.notOk(
    own.items.some(({ error }) => error),
    'the draft of an earlier `dev` is replaced',
  );
  own.interrupt();
  await own.code;

  // Its code is not lost: it was published.
  await saveElsewhere(30);
  const published = await ian.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: draftFiles(30) });
  t.equal(published.status, 201, JSON.stringify(published.body));
  const after = start(t, ['dev'], folder);
  await after.next(({ saved }) => saved === slug);
  t.notOk(after.items.some(({ error }) => error));
  after.interrupt();
  await after.code;

  await saveElsewhere(4);
  const elsewhere = start(t, ['dev'], folder, { HOME: await temporaryFolder(t) });
  await elsewhere.next(({ saved }) => saved === slug);
  t.notOk(
    elsewhere.items.some(({ error }) => error),
    'the same code is no other draft',
  );
  elsewhere.interrupt();
  await elsewhere.code;
});

soakTest(t, 'dev: replaces its own draft whose answer it missed', async (t) => {
  const folder = await writePackage('own', 1);
  const edit = (more: number) => saveFile(folder, 'index.ts', sayingSource(more));
  const proxy = await SessionProxy.start(url);
  t.teardown(() => proxy.close());
  const dev = start(t, ['dev'], folder, { BULKHEAD_URL: proxy.url });
  await dev.next(({ saved }) => saved === 'own');

  // The service saves the draft, and is then away for longer than one save is repeated.
  proxy.break('lose', /^POST .*\/draft$/);
  proxy.break('refuse', /^POST .*\/draft$/, 2);
  await edit(2);
  t.match(await dev.next(({ error }) => error), { error: { code: 'unavailable' } });
  await edit(3);
  await dev.next(({ saved }) => saved === 'own');
  const isRefused = ({ items }: Running) => items.some(({ error }) => error?.code === 'draft_changed');
  t.notOk(isRefused(dev), 'the save is not refused');
  const end = async (one: Running): Promise<void> => {
    one.interrupt();
    t.equal(await one.code, 0);
  };

  proxy.break('lose', /^POST .*\/draft$/);
  const repeated = proxy.break('refuse', /^POST .*\/draft$/);
  await edit(4);
  await eventually(async () => repeated.times === 0);
  await end(dev);
  await edit(5);
  const again = start(t, ['dev'], folder, { BULKHEAD_URL: proxy.url });
  await again.next(({ saved }) => saved === 'own');
  t.notOk([dev, again].some(isRefused), 'nor that of the next `dev`');
  await end(again);
});

t.test('dev: saves again when the service accepts it, without a change', async (t) => {
  const folder = await writePackage('patient', 1);
  const proxy = await SessionProxy.start(url);
  t.teardown(() => proxy.close());
  // The proxy asks to wait for a second, so one save makes two attempts.
  proxy.break('refuse', /^POST .*\/draft$/, 3);
  const dev = start(t, ['dev'], folder, { BULKHEAD_URL: proxy.url });
  t.match(await dev.next(({ error }) => error), { error: { code: 'unavailable' } });
  await dev.next(({ saved }) => saved === 'patient');
  t.equal(dev.items.filter(({ error }) => error).length, 1, 'it is reported once');
  if (isSoak()) {
    const lost = proxy.break('lose', /^POST .*\/draft$/);
    await saveFile(folder, 'index.ts', sayingSource(2));
    await eventually(async () => lost.times === 0);
    await dev.next(({ saved }) => saved === 'patient');
    t.equal(dev.items.filter(({ error }) => error).length, 1, 'a save whose answer was lost is repeated');
  }
  dev.interrupt();
  t.equal(await dev.code, 0);
});

/**
 * Starts a proxy before a service.
 *
 * @param answer returns whether it answers the request itself
 * @returns its address
 */
async function startGateway(
  test: Test,
  target: string,
  answer: (request: IncomingMessage, response: ServerResponse) => boolean,
): Promise<string> {
  const gateway = await serve(test, (request, response) => {
    if (answer(request, response)) return;
    const { method, url: path = '/', headers } = request;
    const forwarded = sendRequest(`${target}${path}`, { method, headers }, (reply) => {
      response.writeHead(reply.statusCode ?? 0, reply.headers);
      reply.pipe(response);
    });
    forwarded.on('error', () => response.destroy());
    response.on('close', () => forwarded.destroy());
    request.pipe(forwarded);
  });
  return gateway.url;
}

const IN_USE = 'All 16 inspectors are in use.';

/** Answers like a service without a free inspector. */
const refuseInspector = (response: ServerResponse): void =>
  void response
    .writeHead(503, { 'content-type': 'application/problem+json', 'retry-after': '60' })
    .end(JSON.stringify({ status: 503, code: 'unavailable', detail: IN_USE }));

soakTest(t, 'dev: opens the inspector again when its stream broke', async (t) => {
  const folder = await writePackage('inspected');
  const streams: ServerResponse[] = [];
  const gateway = await startGateway(t, sessionUrl, ({ url = '' }, response) => {
    if (!url.endsWith('/inspector')) return false;
    streams.push(response);
    const attempt = streams.length;
    if (attempt === 1) response.destroy();
    else if (attempt === 3 || attempt === 4) refuseInspector(response);
    else return false;
    return true;
  });
  const dev = start(t, ['dev', '--inspect', '--inspect-port', '0'], folder, { BULKHEAD_SESSION_URL: gateway });
  const isOpen = ({ inspector }: Item): boolean => String(inspector).startsWith('ws:');
  await dev.next(isOpen);
  streams.at(-1)?.destroy();
  await dev.next(isOpen);
  t.equal(streams.length, 5);
  const messages = dev.items.flatMap(({ error }) => error?.message ?? []);
  t.match(messages, [new RegExp(`^${IN_USE}`)]);
  t.equal(messages.length, 1, 'the reason is printed once');
  dev.interrupt();
  t.equal(await dev.code, 0);
});

t.test('mcp: ends at once when it is interrupted while its session starts', async (t) => {
  let isStarting = false;
  const gateway = await startGateway(t, sessionUrl, ({ method, url = '' }) => {
    if (method === 'POST' && url === '/sessions') {
      isStarting = true;
      mcp.interrupt();
    }
    return false;
  });
  const mcp = start(t, ['mcp'], home, { BULKHEAD_SESSION_URL: gateway });
  t.equal(await mcp.code, 0);
  t.ok(isStarting);
});

soakTest(t, 'dev: ends with the reason when the service refuses the inspector', async (t) => {
  const folder = await writePackage('uninspected');
  const gateway = await startGateway(t, sessionUrl, ({ url = '' }, response) => {
    const isInspector = url.endsWith('/inspector');
    if (isInspector) refuseInspector(response);
    return isInspector;
  });
  const dev = start(t, ['dev', '--inspect', '--inspect-port', '0'], folder, { BULKHEAD_SESSION_URL: gateway });
  t.equal(await dev.code, 5);
  t.match(dev.items.at(-1), { error: { code: 'unavailable', message: new RegExp(`^${IN_USE}`) } });
});

t.test('dev: saves again behind a proxy that answers 502 while the service restarts', async (t) => {
  const folder = await writePackage('behind', 1);
  let refused = /^GET /;
  let times = Number.POSITIVE_INFINITY;
  const gateway = await startGateway(t, url, (request, response) => {
    if (times === 0 || !refused.test(`${request.method} ${request.url}`)) return false;
    times -= 1;
    request.resume();
    response.writeHead(502, { 'content-type': 'text/html' });
    response.end('<html><head><title>502 Bad Gateway</title></head></html>');
    return true;
  });
  const more = { BULKHEAD_URL: gateway };
  const advice = /^The service responded with status 502\. Try again/;

  const status = start(t, ['status'], folder, more);
  t.equal(await status.code, 5);
  t.match(JSON.parse(status.output()), { error: { code: 'unavailable', message: advice } });
  if (!isSoak()) return;

  times = 0;
  const dev = start(t, ['dev'], folder, more);
  await dev.next(({ saved }) => saved === 'behind');
  // One save makes at most five attempts.
  refused = /^POST .*\/draft$/;
  times = 6;
  await saveFile(folder, 'index.ts', sayingSource(2));
  t.match(await dev.next(({ error }) => error), { error: { code: 'unavailable', message: advice } });
  await dev.next(({ saved }) => saved === 'behind');
  dev.interrupt();
  t.equal(await dev.code, 0);
});

/** Runs `dev` as an author sees it, without `--json`. */
function startPlain(test: Test, folder: string, more: Readonly<Record<string, string>> = {}) {
  const stop = new AbortController();
  test.teardown(() => stop.abort());
  const output: string[] = [];
  const write = (text: string): void => void output.push(text);
  const code = runCommandLine(['dev'], {
    stdin: new PassThrough(),
    env: { ...env, ...more },
    folder,
    version: '0.0.0',
    signal: stop.signal,
    localTools: noTools,
    stdout: { write },
    stderr: { write },
  });
  return { output, code, interrupt: () => stop.abort() };
}

t.test('dev: says at its end that a plugin which it installed keeps running the draft', async (t) => {
  const folder = await writePackage('kept', 1);
  const endDev = async (): Promise<string> => {
    const { output, code, interrupt } = startPlain(t, folder);
    await eventually(() => output.join('').includes('Watching'));
    interrupt();
    t.equal(await code, 0, output.join(''));
    return output.join('');
  };
  const kept =
    'kept keeps running the draft. To run published versions, run `bulkhead install kept --latest`; to remove it, `bulkhead uninstall kept`.\n';
  t.match(await endDev(), kept, 'installed by it');
  t.match(await endDev(), kept, 'followed the draft before');
  const removed = startPlain(t, folder);
  await eventually(() => removed.output.join('').includes('Watching'));
  t.equal(await start(t, ['uninstall', 'kept', '--yes']).code, 0);
  removed.interrupt();
  t.equal(await removed.code, 0);
  t.notMatch(removed.output.join(''), 'keeps running');
});

soakTest(t, 'dev: prints a warning when a save brings it, not at every save', async (t) => {
  const folder = await writePackage('warned', 1);
  const { body: plugin } = await ian.post('/plugins', { slug: 'warned', displayName: 'Warned' });
  const readDraft = async () => (await ian.get(`/plugins/${plugin.id}`)).body.draft?.sourceSha256;
  const { output, code, interrupt } = startPlain(t, folder);
  const count = (wanted: RegExp): number => output.filter((text) => wanted.test(text)).length;
  /** Resolves when the service has the new draft: then what `dev` prints of the one before is there. */
  const saveAnd = async (change: () => Promise<unknown>): Promise<void> => {
    const before = await readDraft();
    await change();
    await eventually(async () => (await readDraft()) !== before);
  };
  const countWarnings = () => count(/^warning coverage\/ is left out/);
  const edit = (more: number) => () => saveFile(folder, 'index.ts', sayingSource(more));
  await eventually(async () => count(/^Watching/) > 0 && (await readDraft()));
  await saveAnd(async () => {
    await mkdir(join(folder, 'coverage'));
    await edit(2)();
  });
  await eventually(async () => countWarnings() === 1);
  await saveAnd(edit(3));
  await saveAnd(async () => {
    await rmdir(join(folder, 'coverage'));
    await edit(4)();
  });
  t.equal(countWarnings(), 1);
  // The save before may have listed the folder before it was removed.
  await saveAnd(edit(5));
  await saveAnd(async () => {
    await mkdir(join(folder, 'coverage'));
    await edit(6)();
  });
  // A warning that comes back is printed again.
  await eventually(async () => countWarnings() === 2);
  interrupt();
  t.equal(await code, 0, output.join(''));
  t.equal(countWarnings(), 2);
});

soakTest(t, 'dev: keeps a policy that was chosen while it ran, and an uninstallation', async (t) => {
  const folder = await writePackage('chosen', 1);
  const { body: plugin } = await ian.post('/plugins', { slug: 'chosen', displayName: 'Chosen' });
  const published = await ian.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: draftFiles(0) });
  const pin = { versionPolicy: 'Pinned', pinnedVersionId: published.body.id };
  const { body: installation } = await ian.post('/installations', { slug: 'chosen', ...pin });
  const path = `/installations/${installation.id}`;
  const runDev = async (meanwhile: () => Promise<unknown>): Promise<string> => {
    const { output, code, interrupt } = startPlain(t, folder);
    await eventually(() => output.join('').includes('Watching'));
    await meanwhile();
    interrupt();
    t.equal(await code, 0, output.join(''));
    return output.join('');
  };
  const changed = await runDev(() => ian.patch(path, { versionPolicy: 'Latest' }));
  t.match(changed, 'chosen keeps the policy Latest, which was chosen while `dev` ran. chosen runs 1.0.0 (Latest).\n');
  t.match((await ian.get(path)).body, { versionPolicy: 'Latest', currentSemVer: '1.0.0' });
  const uninstalled = await runDev(() => ian.delete(path));
  t.match(uninstalled, 'chosen was uninstalled while `dev` ran.\n');
  t.notMatch(uninstalled, /Moving|was not moved back/);
});

soakTest(t, 'dev: calls no published version in place of the draft', async (t) => {
  const slug = 'twice';
  const folder = await writePackage(slug, 1);
  const { body: plugin } = await ian.post('/plugins', { slug, displayName: slug });
  await ian.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: draftFiles(0) });
  await ian.post('/installations', { slug });
  const startDev = async () => {
    const dev = start(t, ['dev'], folder);
    await dev.next(({ saved }) => saved === slug);
    return dev;
  };
  const [one, other] = [await startDev(), await startDev()];
  one.interrupt();
  t.equal(await one.code, 0);
  const type = async (line: string): Promise<Item> => {
    other.stdin.write(`${line}\n`);
    return other.next(({ played }) => played === line);
  };
  const message =
    '“twice” runs 1.0.0 with the policy Latest. Another `dev` has ended, or you chose another policy. To run your draft again, run `bulkhead install twice --draft` in another terminal.';
  for (const line of ['tool add {"a":1}', 'hook systemPrompt', 'command hello', 'fire sessionStarted'])
    t.same(await type(line), { played: line, error: { code: 'not_a_draft', message } });
  await saveFile(folder, 'index.ts', sayingSource(2));
  t.match(await other.next(({ error }) => error), { error: { code: 'not_a_draft', message } });
  t.equal(await start(t, ['install', slug, '--draft', '--yes']).code, 0);
  t.match((await type('tool add {"a":1}')).answer, { content: [{ text: '3' }] });
  other.interrupt();
  t.equal(await other.code, 0);
});

soakTest(t, 'dev: calls no published version while the folder is not saved', async (t) => {
  const slug = 'unsaved';
  const folder = await writePackage(slug, 1);
  const { body: plugin } = await ian.post('/plugins', { slug, displayName: slug });
  await ian.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: draftFiles(0) });
  await ian.post(`/plugins/${plugin.id}/draft`, { files: draftFiles(10) });
  const dev = start(t, ['dev'], folder);
  const type = async (line: string): Promise<Item> => {
    dev.stdin.write(`${line}\n`);
    return dev.next(({ played }) => played === line);
  };
  const call = 'tool add {"a":1}';
  const advice = 'This folder is not saved as your draft. Do what the last error says.';
  t.match(await dev.next(({ error }) => error), { error: { code: 'draft_changed' } });
  t.same((await type(call)).error, { code: 'not_running', message: advice }, 'not installed');
  const { body: installation } = await ian.post('/installations', { slug });
  const message = `“unsaved” runs 1.0.0 with the policy Latest. ${advice}`;
  t.same((await type(call)).error, { code: 'not_a_draft', message });
  await ian.patch(`/installations/${installation.id}`, { versionPolicy: 'Draft' });
  t.match((await type(call)).answer, { content: [{ text: '11' }] }, 'the draft that is saved');
  dev.stdin.write('replace\n');
  await dev.next(({ saved }) => saved === slug);
  t.match((await type(call)).answer, { content: [{ text: '2' }] });
  dev.interrupt();
  t.equal(await dev.code, 0);
});

t.test('dev: says how to move back if it cannot, or is interrupted while it does', async (t) => {
  const slug = 'halfway';
  const folder = await writePackage(slug, 1);
  const { body: plugin } = await ian.post('/plugins', { slug, displayName: slug });
  await ian.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: draftFiles(0) });
  const { body: installation } = await ian.post('/installations', { slug });
  const path = `/installations/${installation.id}`;
  const policyChanges: string[] = [];
  // The move to the draft and the pin of the version before it succeed; the move to the policy before it fails.
  const gateway = await startGateway(t, url, ({ method }, response) => {
    if (method !== 'PATCH' || policyChanges.push(method) < 3) return false;
    const problem = { status: 409, code: 'conflict', detail: 'Not now.' };
    response.writeHead(409, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem));
    return true;
  });
  const { output, code, interrupt } = startPlain(t, folder, { BULKHEAD_URL: gateway });
  await eventually(() => output.join('').includes('live halfway'));
  interrupt();
  t.equal(await code, 0);
  t.match(
    output.join(''),
    'Moving halfway back from the draft. If you interrupt that, run `bulkhead install halfway --latest`.\n' +
      'halfway was not moved back from the draft: Not now. Run `bulkhead install halfway --latest`.\n',
  );
  t.match((await ian.get(path)).body, { versionPolicy: 'Pinned', currentSemVer: '1.0.0' });
  t.equal(await start(t, ['install', slug, '--latest', '--yes']).code, 0);
  t.match((await ian.get(path)).body, { versionPolicy: 'Latest', currentSemVer: '1.0.0' });
});

soakTest(t, 'dev: a refused save leaves the entry of another dev on this computer', async (t) => {
  const [one, other] = [await writePackage('tree-one', 1), await writePackage('tree-other', 2)];
  const args = ['dev', '--slug', 'trees'];
  const first = start(t, args, one);
  await first.next(({ saved }) => saved === 'trees');
  const second = start(t, args, other);
  await second.next(({ saved }) => saved === 'trees');
  await saveFile(one, 'index.ts', sayingSource(3));
  t.match(await first.next(({ error }) => error), { error: { code: 'draft_changed' } });
  for (const dev of [first, second]) {
    dev.interrupt();
    t.equal(await dev.code, 0);
  }
  await saveFile(other, 'index.ts', sayingSource(4));
  const again = start(t, args, other);
  await again.next(({ saved }) => saved === 'trees');
  t.notOk(again.items.some(({ error }) => error));
  again.interrupt();
  t.equal(await again.code, 0);
});

soakTest(t, 'dev: says nothing about a policy that it could not change', async (t) => {
  const folder = await writePackage('refused', 1);
  const { body: plugin } = await ian.post('/plugins', { slug: 'refused', displayName: 'Refused' });
  await ian.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: draftFiles(0) });
  await ian.post('/installations', { slug: 'refused' });
  const problem = { status: 409, code: 'conflict', detail: 'Not now.' };
  const gateway = await startGateway(t, url, ({ method }, response) => {
    if (method !== 'PATCH') return false;
    response.writeHead(409, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem));
    return true;
  });
  const { output, code, interrupt } = startPlain(t, folder, { BULKHEAD_URL: gateway });
  await eventually(() => output.join('').includes('Not now.'));
  interrupt();
  t.equal(await code, 0);
  t.notMatch(output.join(''), 'refused keeps the policy');
  t.notMatch(output.join(''), /Moving|was not moved back/);
});

for (const asks of amount({ quick: [true], soak: [false, true] })) {
  const which = asks ? 'that asks for what a pending update asks for' : 'that asks for less than a pending update';
  t.test(`dev: after a draft ${which}, the update still waits for consent`, async (t) => {
    const slug = asks ? 'eager' : 'modest';
    const folder = join(home, slug);
    const [plain, wider] = [source(0), `${source(0)}events.sessionCleared = () => {};\n`];
    await mkdir(folder);
    await writeFile(join(folder, 'readme.md'), readme);
    await saveFile(folder, 'index.ts', asks ? wider : plain);
    const { body: plugin } = await ian.post('/plugins', { slug, displayName: slug });
    const publish = async (semVer: string, contentText: string): Promise<string> => {
      const files = [
        { path: 'readme.md', contentText: readme },
        { path: 'index.ts', contentText },
      ];
      const { status, body } = await ian.post(`/plugins/${plugin.id}/versions`, { semVer, files });
      t.equal(status, 201, JSON.stringify(body));
      return body.id;
    };
    const first = await publish('1.3.0', plain);
    const { body: installation } = await ian.post('/installations', { slug });
    await publish('1.4.0', wider);
    const read = async () => (await ian.get(`/installations/${installation.id}`)).body;
    const before = await read();
    t.match(before, { currentSemVer: '1.3.0', versionPolicy: 'Latest', pendingUpdate: { semVer: '1.4.0' } });

    const dev = start(t, ['dev'], folder);
    await dev.next(({ saved }) => saved === slug);
    t.match(await read(), { currentSemVer: null, versionPolicy: 'Draft' });
    dev.interrupt();
    t.equal(await dev.code, 0);
    const after = await read();
    t.match(after, { currentVersionId: first, versionPolicy: 'Latest', pendingUpdate: { semVer: '1.4.0' } });
    t.same(after.grantedCapabilities, before.grantedCapabilities, 'no grant of the draft remains');
  });
}

soakTest(t, 'install: leaves a draft that runs under another policy', async (t) => {
  const slug = 'modest';
  const [{ id }] = (await ian.get('/installations')).body.items.filter((one: Item) => one.slug === slug);
  const dev = start(t, ['dev'], join(home, slug));
  await dev.next(({ saved }) => saved === slug);
  // As a `dev` of an older command line left it: 1.4.0 needs consent, so the draft runs on.
  const left = await ian.patch(`/installations/${id}`, { versionPolicy: 'Latest' });
  t.match(left.body, { currentSemVer: null, versionPolicy: 'Latest' });
  const installed = start(t, ['install', slug, '--yes']);
  t.equal(await installed.code, 0, installed.output());
  t.match((await ian.get(`/installations/${id}`)).body, { currentSemVer: '1.4.0', versionPolicy: 'Latest' });
  dev.interrupt();
  await dev.code;
});

soakTest(t, 'dev and fire: say why the draft does not run, and what to do', async (t) => {
  const slug = 'modest';
  const folder = join(home, slug);
  const [{ id }] = (await ian.get('/installations')).body.items.filter((one: Item) => one.slug === slug);
  const fire = async () => {
    const fired = start(t, ['fire', 'sessionStarted', '--slug', slug]);
    t.equal(await fired.code, 1);
    return JSON.parse(fired.output());
  };
  const absent = start(t, ['fire', 'sessionStarted', '--slug', 'absent']);
  t.equal(await absent.code, 1);
  t.match(JSON.parse(absent.output()), { error: { message: /Run `bulkhead install absent --draft`\.$/ } });
  t.match(await fire(), {
    error: {
      code: 'not_a_draft',
      message:
        /“modest” runs 1\.4\.0 with the policy Latest\. To run your draft, use `bulkhead install modest --draft`/,
    },
  });
  const moved = start(t, ['install', slug, '--draft']);
  t.equal(await moved.code, 0, moved.output());
  t.equal(await start(t, ['fire', 'sessionStarted', '--slug', slug]).code, 0);
  t.equal((await ian.post(`/installations/${id}/pause`)).status, 200);
  const message =
    '“modest” cannot run your draft now. Its state is paused: It was paused by hand. Resume it. bulkhead resume modest';
  // The supervisor reads the row itself, so that it needs no notification of the pause.
  t.match(await fire(), { error: { code: 'not_running', message } });
  t.equal((await ian.patch(`/installations/${id}`, { versionPolicy: 'Latest' })).status, 200);
  t.equal((await ian.post(`/installations/${id}/resume`)).status, 200);
  t.equal(await start(t, ['install', slug, '--yes']).code, 0);
  t.equal((await ian.post(`/installations/${id}/pause`)).status, 200);
  t.match(await bulkhead(['install', slug, '--draft'], { env }), {
    code: 0,
    stdout: 'modest runs 1.4.0 until the draft has started. Resume it, so that the draft can start.\n',
  });
  t.equal((await ian.patch(`/installations/${id}`, { versionPolicy: 'Latest' })).status, 200);
  const dev = start(t, ['dev'], folder);
  t.match(await dev.next(({ error }) => error), { error: { code: 'not_running', message } });
  dev.interrupt();
  await dev.code;
  t.match((await ian.get(`/installations/${id}`)).body, {
    status: 'paused',
    versionPolicy: 'Latest',
    updateUnderWay: null,
  });
  t.equal((await ian.post(`/installations/${id}/resume`)).status, 200);
});

t.test('call, fire, logs and replay', async (t) => {
  const called = start(t, ['call', 'adder__add', '{"a":2}']);
  t.equal(await called.code, 0);
  t.equal(await start(t, ['call', 'adder__nothing']).code, 1);
  t.equal(await start(t, ['call', 'adder__add', 'no json']).code, 2);
  t.equal(await start(t, ['fire', 'sessionStarted', '--slug', 'adder']).code, 0);
  t.equal(await start(t, ['replay', 'nothing']).code, 1);
  const logs = start(t, ['logs', 'adder', '-f', '--level', 'info']);
  await logs.next(({ message }) => message === 'began s1');
  await start(t, ['call', 'adder__add', '{"a":3}']).code;
  await logs.next(({ message }) => message === 'adding');
  logs.interrupt();
  t.equal(await logs.code, 130);
});

soakTest(
  t,
  'logs: follows an empty log from its first line, also if it is written before the stream opens',
  async (t) => {
    const slug = 'warning';
    const contentText = `tools.warn = { description: 'x', parameters: { type: 'object' }, handler: () => { console.warn('late'); return 'y'; } };`;
    const files = [
      { path: 'index.ts', contentText },
      { path: 'readme.md', contentText: readme },
    ];
    const { body: plugin } = await ian.post('/plugins', { slug, displayName: slug });
    await ian.post(`/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files });
    const { body: installation } = await ian.post('/installations', { slug });
    const readLines = async () =>
      (await ian.get(`/plugin-logs?installationId=${installation.id}&levels=warn`)).body.items as Item[];
    const called = Promise.withResolvers<void>();
    let isWritten = false;
    const gateway = await startGateway(t, url, ({ url = '' }, response) => {
      if (!url.startsWith('/api/plugin-logs/stream') || isWritten) return false;
      called.resolve();
      response.destroy();
      return true;
    });
    const logs = start(t, ['logs', slug, '-f', '--level', 'warn'], home, { BULKHEAD_URL: gateway });
    await called.promise;
    t.equal(await start(t, ['call', 'warning__warn']).code, 0);
    await eventually(async () => (await readLines()).length === 1);
    isWritten = true;
    await logs.next(({ message }) => message === 'late');
    logs.interrupt();
    t.equal(await logs.code, 130);
  },
);

t.test('mcp: the official client over a command’s standard input and output', async (t) => {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [join(await sharePackage(), 'dist/bulkhead.js'), 'mcp'],
    env,
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  t.teardown(() => client.close());
  await client.connect(transport as never);
  const { tools } = await client.listTools();
  t.ok(tools.some(({ name }) => name === 'adder__add'));
  const answer = await client.callTool({ name: 'adder__add', arguments: { a: 2 } });
  t.match(answer, { content: [{ text: '42' }] });
  // JSON need not escape these, although some readers of lines end one at them.
  const separators = 'b\u2028c\u2029d\u0085e';
  const other = await client.callTool({ name: 'adder__add', arguments: { a: 3, note: separators } });
  t.match(other, { content: [{ text: '43' }] });
  await client.close();
});

// Last: its plugin fails from then on.
t.test('call and fire end with 1 and print the result when the plugin failed', async (t) => {
  await save(`tools.add = { description: 'x', parameters: {}, handler: () => { throw new Error('no number'); } };
events.sessionStarted = () => { throw new Error('no session'); };
`);
  const dev = start(t, ['dev'], folder);
  await dev.next(({ saved }) => saved === 'adder');
  dev.interrupt();
  await dev.code;
  const called = start(t, ['call', 'adder__add']);
  t.equal(await called.code, 1);
  t.match(JSON.parse(called.output()), {
    error: { code: 'plugin_failed' },
    isError: true,
    content: [{ text: /no number/ }],
  });
  const fired = start(t, ['fire', 'sessionStarted', '--slug', 'adder']);
  t.equal(await fired.code, 1);
  const error = { code: 'plugin_failed', message: /^events\.sessionStarted failed after \d+ ms: .*no session/ };
  t.match(JSON.parse(fired.output()), { error, event: 'sessionStarted', outcome: 'failed' });
});
