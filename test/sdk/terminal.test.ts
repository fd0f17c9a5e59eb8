/**
 * The command line as a program, in a real pseudo-terminal (util-linux `script`) and in a pipe: who consents, what of a
 * plugin's text reaches the terminal, and what an interruption leaves behind.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { connect } from '../../sdk/session/client.ts';
import { serve } from '../../sdk/session/serve.ts';
import { bareEnvironment } from '../fixtures/bare-environment.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { amount, isSoak, soakTest } from '../runner/soak.ts';
import { startPlugin } from '../supervisor/supervisor-fixture.ts';
import { sharePackage } from './author.ts';
import { saveFile } from './save-file.ts';
import { shareService } from './shared-service.ts';
import { bulkhead } from './typed.ts';

/** Built: from source, each start takes twice the processor time. */
const PROGRAM = join(await sharePackage(), 'dist/bulkhead.js');
const WAIT_MS = 60_000;

const { fixture, api, url, sessionUrl } = await shareService();
const tess = await api.user('tess');
const home = await temporaryFolder(t);
const env = {
  ...bareEnvironment,
  HOME: home,
  TERM: 'xterm',
  BULKHEAD_URL: url,
  BULKHEAD_SESSION_URL: sessionUrl,
  BULKHEAD_TOKEN: tess.token,
};

interface Program {
  /** Everything that it wrote so far; in a terminal both streams together. */
  output(): string;
  write(text: string): void;
  /** Waits for words in the output. */
  wait(words: RegExp): Promise<void>;
  /** Closes the input. @returns the exit code */
  end(): Promise<number>;
  /** As a reader in a pipeline that has read enough. @returns the exit code */
  closeOutput(): Promise<number>;
}

interface ProgramOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

function start(test: Test, command: string, args: readonly string[], options: ProgramOptions): Program {
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn(command, [...args], {
    cwd: options.cwd ?? home,
    env: { ...env, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  child.stdin.on('error', () => undefined);
  const closed = once(child, 'close');
  test.teardown(() => void child.kill('SIGKILL'));
  return {
    output: () => output,
    write: (text) => void child.stdin.write(text),
    wait: (words) =>
      eventually(async () => words.test(output), WAIT_MS).then(
        () => undefined,
        () => void test.fail(`no ${words} in: ${output}`),
      ),
    async end() {
      child.stdin.end();
      return (await closed)[0] as number;
    },
    async closeOutput() {
      child.stdout.destroy();
      return (await closed)[0] as number;
    },
  };
}

/** Without a terminal. */
const inPipe = (test: Test, args: readonly string[], options: ProgramOptions = {}): Program =>
  start(test, process.execPath, [PROGRAM, ...args], options);

/** In this process: for what a real pipe does not change. @param input what is piped into it */
async function runHere(
  args: readonly string[],
  { env: own = {}, input = '' }: ProgramOptions & { input?: string } = {},
) {
  const { code, stdout, stderr } = await bulkhead(args, { folder: home, env: { ...env, ...own }, input });
  return { code, output: stdout + stderr };
}

const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
/** In a pseudo-terminal. @param rest shell words behind the command, such as a redirection */
const inTerminal = (
  test: Test,
  args: readonly string[],
  options: ProgramOptions & { rest?: string; size?: string } = {},
): Program => {
  const { rest, size = 'columns 120 rows 40' } = options;
  const command = [process.execPath, PROGRAM, ...args].map(quote).join(' ');
  // Without `exec`, the shell too is interrupted by Ctrl-C, and its exit code hides the program's.
  const line = `stty ${size}; ${rest === undefined ? `exec ${command}` : `${command} ${rest}`}`;
  return start(test, 'script', ['--quiet', '--return', '--flush', '--command', line, '/dev/null'], options);
};

/** Texts with which a plugin may try to fool a terminal: set its clipboard, clear it, go back, forge a line, turn the text around. */
const CLIPBOARD = '\u001b]52;c;ZXZpbA==\u0007';
const HOSTILE = `${CLIPBOARD}\u001b[2J\u009b31m\rfine\u202e\u200b\n12:00:00 error system: forged`;
const UNSAFE = ['\u001b]52', '\u001b[2J', '\u0007', '\u009b', '\u202e', '\u200b'];
/** The unsafe characters in an output. A terminal ends its lines with a carriage return itself. */
const findUnsafe = (output: string): string[] =>
  [...UNSAFE, '\r'].filter((text) => output.replaceAll('\r\n', '\n').includes(text));

const README = '---\nname: House\ndescription: Tests\n---\n';
const source = (extra = '') => `
  tools.speak = { description: 'x', parameters: { type: 'object' }, handler: () => { host.log(${JSON.stringify(HOSTILE)}, { h: ${JSON.stringify(HOSTILE)} }); return ${JSON.stringify(HOSTILE)}; } };
  middleware.inboundMessage = (ctx) => ({ message: { text: ctx.message.text + '!' } });
  middleware.outboundMessage = (ctx) => ({ message: { text: ctx.message.text + '?' } });
  compaction.summarize = (ctx) => 'Summary of ' + ctx.messages.length;
  ${extra}`;
const { body: plugin } = await tess.post('/plugins', { slug: 'house', displayName: 'House' });
// The service refuses such a name; the command line does not rely on it.
await fixture.pool.query('UPDATE plugins SET display_name = $1 WHERE id = $2', [`House${CLIPBOARD}`, plugin.id]);
const publish = async (semVer: string, extra?: string): Promise<void> => {
  const files = [
    { path: 'readme.md', contentText: README },
    { path: 'index.ts', contentText: source(extra) },
  ];
  const { status } = await tess.post(`/plugins/${plugin.id}/versions`, { semVer, files });
  if (status !== 201) throw new Error(`the version was not published: ${status}`);
};
await publish('1.0.0');
const installed = async () => (await tess.get('/installations')).body.items;

t.test('install: only a user at a terminal or --yes consents', async (t) => {
  const refusal = /Nothing was installed\. There is no terminal to confirm it\. To give your consent, pass `--yes`\./;
  const piped = inPipe(t, ['install', 'house']);
  piped.write('y\n');
  t.equal(await piped.end(), 2);
  t.match(piped.output(), refusal);
  t.match(await runHere(['install', 'house', '--required'], { input: 'y\n' }), { code: 2, output: refusal });
  const json = await runHere(['install', 'house', '--json']);
  t.equal(json.code, 2);
  t.match(JSON.parse(json.output), { error: { code: 'confirmation_required' } });
  for (const rest of amount({ quick: [], soak: ['| cat', '< /dev/null'] })) {
    const half = inTerminal(t, ['install', 'house'], { rest });
    await half.wait(/There is no terminal to confirm it/);
    await half.end();
  }
  t.same(await installed(), [], 'nothing was installed');

  if (isSoak()) {
    const refused = inTerminal(t, ['install', 'house']);
    await refused.wait(/Install House/);
    refused.write('n');
    await refused.wait(/Nothing was installed\./);
    t.equal(await refused.end(), 2, 'a missing consent');
  }
  const interrupted = inTerminal(t, ['install', 'house']);
  await interrupted.wait(/Install House/);
  t.notOk(interrupted.output().includes('\u001b]52'), 'the name of a plugin in the question is harmless');
  interrupted.write('\u0003');
  t.equal(await interrupted.end(), 130);
  t.same(await installed(), []);
  const accepted = inTerminal(t, ['install', 'house']);
  await accepted.wait(/Install House/);
  accepted.write('y');
  await accepted.wait(/installed/);
  t.equal(await accepted.end(), 0);
  t.match(await installed(), [{ slug: 'house', currentSemVer: '1.0.0' }]);
});

t.test('install --pin: shows what the pinned version can access, to every user', async (t) => {
  const { body: gate } = await tess.post('/plugins', { slug: 'gate', displayName: 'Gate' });
  const versions = { '1.0.0': 'events.sessionStarted = () => {};', '2.0.0': 'events.sessionCleared = () => {};' };
  for (const [semVer, contentText] of Object.entries(versions)) {
    const files = [
      { path: 'readme.md', contentText: README },
      { path: 'index.ts', contentText },
    ];
    t.equal((await tess.post(`/plugins/${gate.id}/versions`, { semVer, files })).status, 201);
  }
  t.equal((await tess.post(`/plugins/${gate.id}/listing`)).status, 200);
  const bob = await api.user('bob');
  for (const { token } of [tess, bob]) {
    const user = { env: { BULKHEAD_TOKEN: token } };
    const shown = await runHere(['install', 'gate', '--pin', '1.0.0'], user);
    t.equal(shown.code, 2);
    t.match(
      shown.output,
      /1\.0\.0:\n {2}Receives an event when a session of your agents starts\.\n.*Nothing was installed/,
    );
    t.notMatch(shown.output, /is cleared/, 'only the newest version asks for this');
    const unknown = await runHere(['install', 'gate', '--pin', '3.0.0', '--yes'], user);
    t.equal(unknown.code, 1);
    t.match(unknown.output, /no version 3\.0\.0.*2\.0\.0, 1\.0\.0/);
  }
  const asBob = { env: { BULKHEAD_TOKEN: bob.token } };
  const pinned = await runHere(['install', 'gate', '--pin', '1.0.0', '--yes'], asBob);
  t.equal(pinned.code, 0, pinned.output);
  const { items } = (await bob.get('/installations')).body;
  t.match(items, [{ versionPolicy: 'Pinned', currentSemVer: '1.0.0', grantedCapabilities: ['events.sessionStarted'] }]);
});

t.test('list: asks at a terminal, because it puts the plugin into the catalog of all users', async (t) => {
  const visibility = async () => (await tess.get(`/plugins/${plugin.id}`)).body.visibility;
  const question = /Put house into the catalog for all users\?/;
  const refused = inTerminal(t, ['list', 'house']);
  await refused.wait(question);
  refused.write('n');
  t.equal(await refused.end(), 2);
  t.match(refused.output(), /Nothing was changed\. To list your plugins, run `bulkhead status`\./);
  t.equal(await visibility(), 'private');
  const accepted = inTerminal(t, ['list', 'house']);
  await accepted.wait(question);
  accepted.write('y');
  t.equal(await accepted.end(), 0, accepted.output());
  t.equal(await visibility(), 'listed');
  if (!isSoak()) return;
  t.equal((await tess.delete(`/plugins/${plugin.id}/listing`)).status, 200);
  const consented = inTerminal(t, ['list', 'house', '--yes']);
  t.equal(await consented.end(), 0, consented.output());
  t.notMatch(consented.output(), question);
  const again = inTerminal(t, ['list', 'house']);
  t.equal(await again.end(), 0, 'it is in the catalog already');
  t.notMatch(again.output(), question);
});

soakTest(t, 'a question fits on its line in a terminal that reports no size', async (t) => {
  const sizeless = inTerminal(t, ['uninstall', 'house'], { size: 'columns 0 rows 0' });
  await sizeless.wait(/Uninstall house\?/);
  sizeless.write('n');
  await sizeless.wait(/Nothing was uninstalled\./);
  t.equal(await sizeless.end(), 2);
  const creating = inTerminal(t, ['init', 'sizeless'], { size: 'columns 0 rows 0' });
  await creating.wait(/What should the plugin do\?/);
  creating.write('\r');
  await creating.wait(/What is its name\?/);
  creating.write('\u0003');
  t.equal(await creating.end(), 130);
});

t.test('init: asks until the name is valid, and nothing more after Ctrl-C', async (t) => {
  if (isSoak()) {
    const interrupted = inTerminal(t, ['init', 'asked']);
    await interrupted.wait(/What should the plugin do\?/);
    interrupted.write('\u0003');
    t.equal(await interrupted.end(), 130);
    t.notMatch(interrupted.output(), 'What is its name?');
  }
  const named = inTerminal(t, ['init', 'asked', '--template', 'tool']);
  await named.wait(/What is its name\?/);
  named.write(`${'x'.repeat(64)}\r`);
  await named.wait(/The name must be at most 64 characters\./);
  named.write('\u0015House\r');
  await named.wait(/Wrote readme\.md/);
  t.equal(await named.end(), 0);
  t.match(await readFile(join(home, 'asked/readme.md'), 'utf8'), 'name: "House"');
});

t.test('accept: the same', async (t) => {
  await publish('1.1.0', 'events.sessionStarted = () => {};');
  const piped = await runHere(['accept', 'house'], { input: 'y\n' });
  t.equal(piped.code, 2);
  t.match(
    piped.output,
    /1\.1\.0 asks for more access:\n {2}Receives an event when a session of your agents starts\.\n[\s\S]*Nothing was accepted\. There is no terminal/,
  );
  t.match(await installed(), [{ currentSemVer: '1.0.0' }]);
  const consented = await runHere(['accept', 'house', '--yes']);
  t.equal(consented.code, 0, consented.output);
  t.match(await installed(), [{ currentSemVer: '1.1.0' }]);
});

t.test('configure: a value typed for one version is not given to the next', async (t) => {
  const { body: vault } = await tess.post('/plugins', { slug: 'vault', displayName: 'Vault' });
  const publishVault = async (semVer: string): Promise<void> => {
    const files = [
      { path: 'readme.md', contentText: README.replace('---\n', '---\nsecrets: { key: {} }\n') },
      { path: 'index.ts', contentText: source() },
    ];
    t.equal((await tess.post(`/plugins/${vault.id}/versions`, { semVer, files })).status, 201);
  };
  await publishVault('1.0.0');
  const { body: made } = await tess.post('/installations', { slug: 'vault' });
  const read = async () => (await tess.get(`/installations/${made.id}`)).body;
  const asked = inTerminal(t, ['configure', 'vault', '--secret', 'key']);
  await asked.wait(/Reads the value of the secret “key”\.[\s\S]*key/);
  await publishVault('1.1.0');
  await eventually(async () => (await read()).currentSemVer === '1.1.0');
  asked.write('s3cret\r');
  t.equal(await asked.end(), 1);
  t.match(asked.output(), /Nothing was saved: 1\.1\.0 runs now, and not the version that was shown to you\./);
  t.match(await read(), { secretNames: [] });
  t.equal((await tess.delete(`/installations/${made.id}`)).status, 204);
});

t.test("a plugin's terminal escapes are shown and never sent, as JSON exactly", async (t) => {
  const called = inTerminal(t, ['call', 'house__speak']);
  await called.wait(/forged/);
  t.equal(await called.end(), 0, called.output());
  t.same(findUnsafe(called.output()), []);
  t.match(called.output(), /\\u001b\]52;c;ZXZpbA==\\u0007/);

  await fixture.supervisor.logs.flush();
  const logs = inTerminal(t, ['logs', 'house']);
  await logs.end();
  t.same(findUnsafe(logs.output()), []);
  t.ok(logs.output().includes('\u001b[36m'), 'the program’s own colours stay');
  t.match(
    logs.output(),
    /tools\.speak: \\u001b\]52;c;ZXZpbA==\\u0007\\u001b\[2J\\u009b31m\\u000dfine\\u202e\\u200b\r?\n {4}12:00:00 error/,
  );

  for (const args of [
    ['logs', 'house', '--json'],
    ['call', 'house__speak', '--json'],
  ]) {
    const { code, output } = await runHere(args);
    t.equal(code, 0);
    t.same(findUnsafe(output), []);
    const values = args[0] === 'logs' ? output.trim().split(/\n(?=\{)/) : [output];
    t.ok(values.some((text) => JSON.stringify(JSON.parse(text)).includes(JSON.stringify(HOSTILE))));
  }
});

t.test('login: a token is read from standard input or the environment, and refused on the command line', async (t) => {
  const own = { env: { HOME: await temporaryFolder(t), BULKHEAD_TOKEN: '' } };
  const literal = await runHere(['login', '--token', tess.token], own);
  t.equal(literal.code, 2);
  t.match(
    literal.output,
    /Other users of this machine can read a command line\. Pipe the token into `bulkhead login --token -`/,
  );
  t.notMatch(literal.output, tess.token);
  const piped = inPipe(t, ['login', '--token', '-'], own);
  piped.write(`${tess.token}\n`);
  t.equal(await piped.end(), 0, piped.output());
  t.match(piped.output(), /Signed in as tess/);
  const fromEnvironment = await runHere(['login'], { env: { ...own.env, BULKHEAD_TOKEN: tess.token } });
  t.equal(fromEnvironment.code, 0, fromEnvironment.output);
  const link = await runHere(['login', `${url}/#token=${tess.token}`], own);
  t.equal(link.code, 0);
  t.match(link.output, /warning Other users of this machine can read a command line/);
  const expired = { env: { ...own.env, BULKHEAD_TOKEN: 'an.old.token' } };
  const refused = await runHere(['whoami'], expired);
  t.equal(refused.code, 4);
  t.match(refused.output, 'The token in BULKHEAD_TOKEN is not valid for');
  t.match(refused.output, 'Replace it, or unset BULKHEAD_TOKEN and run `bulkhead login`.');
  const unused = await runHere(['login', '--token', '-'], { ...expired, input: `${tess.token}\n` });
  t.equal(unused.code, 0, unused.output);
  t.match(unused.output, 'Commands use the token in BULKHEAD_TOKEN instead, until you unset it.');
  const nothing = await runHere(['login'], own);
  t.equal(nothing.code, 2);
  t.match(nothing.output, /There is no terminal to ask for a token\./);
});

t.test(
  'dev: hooks take incomplete fields and say who answered, and Ctrl-C puts the installed version back',
  async (t) => {
    const { body: porch } = await tess.post('/plugins', { slug: 'porch', displayName: 'Porch' });
    const files = [
      { path: 'readme.md', contentText: README },
      { path: 'index.ts', contentText: 'middleware.outboundMessage = () => undefined;' },
    ];
    await tess.post(`/plugins/${porch.id}/versions`, { semVer: '1.0.0', files });
    const { body: other } = await tess.post('/installations', { slug: 'porch' });
    await tess.patch(`/installations/${other.id}`, { hookOrder: -1 });
    // On a busy machine, its first start would take longer than the hook below waits.
    await startPlugin(fixture, { installationId: other.id });
    t.teardown(() => tess.delete(`/installations/${other.id}`));
    const folder = join(home, 'house');
    await mkdir(folder);
    await writeFile(join(folder, 'readme.md'), README);
    await writeFile(join(folder, 'index.ts'), source('commands.draft = { description: "x", handler: () => "d" };'));
    const dev = inTerminal(t, ['dev'], { cwd: folder });
    await dev.wait(/live\S* house in/);
    t.match(await installed(), [{ versionPolicy: 'Draft' }]);
    dev.write('hook outboundMessage {"message":{"text":"Hello"}}\r');
    await dev.wait(/"text": "Hello\?"/);
    await dev.wait(/Chain: porch: unchanged, then house \(your draft\): changed/);
    dev.write('hook compaction.summarize {"focus":"bread"}\r');
    await dev.wait(/"summary": "Summary of \d+"/);
    dev.write('hook outboundMessage {"massage":{}}\r');
    await dev.wait(/middleware\.outboundMessage has no field massage; it has message, target/);
    dev.write('\u0003');
    // npm sends its child the terminal's Ctrl-C once more.
    await sleep(5);
    dev.write('\u0003');
    await dev.wait(/house runs 1\.1\.0 again \(Latest\)/);
    t.equal(await dev.end(), 0, dev.output());
    t.match(await installed(), [
      { versionPolicy: 'Latest', currentSemVer: '1.1.0', pendingUpdate: null, status: 'ready' },
    ]);
  },
);

t.test('a command whose output nothing reads any more does what it was asked for', async (t) => {
  const folder = join(home, 'house');
  const published = inPipe(t, ['publish', folder, '--slug', 'quiet', '--yes', '--list']);
  t.equal(await published.closeOutput(), 0, published.output());
  const found = await fixture.pool.query("SELECT visibility FROM plugins WHERE slug = 'quiet'");
  t.same(found.rows, [{ visibility: 'listed' }]);
  if (!isSoak()) return;

  const dev = inPipe(t, ['dev', folder]);
  await dev.wait(/live house in/);
  t.match(await installed(), [{ versionPolicy: 'Draft' }]);
  const ended = dev.closeOutput();
  await saveFile(folder, 'index.ts', source());
  t.equal(await ended, 0, dev.output());
  t.match(await installed(), [{ versionPolicy: 'Latest', currentSemVer: '1.1.0' }]);

  const mcp = inPipe(t, ['mcp', '--agent', 'closing']);
  const exited = mcp.closeOutput();
  // The answer cannot be written.
  mcp.write('no message\n');
  t.equal(await exited, 0, mcp.output());
  const { rows } = await fixture.pool.query("SELECT id FROM sessions WHERE agent_id = 'closing'");
  t.same(rows, [], 'its temporary session is deleted');
});

t.test('publish sends nothing else than what it checked and asked about', async (t) => {
  const folder = join(home, 'house');
  const readVersions = async () => (await tess.get(`/plugins/${plugin.id}`)).body.versions;
  const before = await readVersions();
  for (const more of amount({ quick: [[]], soak: [[], ['--zip']] })) {
    const asked = inTerminal(t, ['publish', ...more], { cwd: folder });
    await asked.wait(/Publish \d\.\d\.\d\?/);
    await saveFile(folder, 'index.ts', source(`// ${more}`));
    asked.write('y');
    t.equal(await asked.end(), 1);
    t.match(
      asked.output(),
      'The folder changed after it was checked. Nothing was published. Run `bulkhead publish` again.',
    );
  }
  t.same(await readVersions(), before);
});

t.test('the file that the output is redirected to is no part of the package', async (t) => {
  const folder = await temporaryFolder(t);
  await saveFile(folder, 'readme.md', README);
  await saveFile(folder, 'index.ts', source());
  const publish = [process.execPath, PROGRAM, 'publish', '--slug', 'redirected', '--yes'].map(quote).join(' ');
  const published = start(t, 'sh', ['-c', `${publish} > published.txt`], { cwd: folder });
  t.equal(await published.end(), 0, published.output());
  const text = await readFile(join(folder, 'published.txt'), 'utf8');
  t.match(text, 'published.txt is left out: this command writes its output to it.');
  const { rows } = await fixture.pool.query(
    `SELECT path FROM version_files f JOIN versions v ON v.id = f.version_id JOIN plugins p ON p.id = v.plugin_id
      WHERE p.slug = 'redirected' ORDER BY path`,
  );
  t.same(rows, [{ path: 'index.ts' }, { path: 'readme.md' }]);
});

soakTest(t, 'output that cannot be written fails the command, also if it does not end it', async (t) => {
  const full = start(t, 'sh', ['-c', `${[process.execPath, PROGRAM].map(quote).join(' ')} whoami > /dev/full`], {});
  t.equal(await full.end(), 1);
  t.equal(
    full.output(),
    'error Standard output cannot be written (ENOSPC). Redirect it to a file on a disk with room.\n',
  );
});

/** Listens on a free port. */
async function startServer(test: Test, server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.teardown(() => new Promise((resolve) => server.close(resolve)));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.test('the error of a runtime with the address of the REST interface names that of the session API', async (t) => {
  const client = connect({ url, token: tess.token });
  const hint = 'If this is the REST interface, use the address of the session API';
  await t.rejects(client.start({ agentId: 'a' }), {
    message: `No route has this address: POST ${url}/sessions. ${hint}`,
  });
  await t.rejects(
    serve(async () => 'x', { client }),
    { message: hint },
  );
  const called = await runHere(['call', 'house__speak'], { env: { BULKHEAD_SESSION_URL: url } });
  t.equal(called.code, 1);
  t.match(called.output, 'from BULKHEAD_SESSION_URL');
});

t.test('a wrong address is reported with the address, and does not wait for an answer that never comes', async (t) => {
  const anywhere = { env: { BULKHEAD_URL: '' } };
  const sockets = new Set<{ destroy(): void }>();
  const silent = await startServer(
    t,
    createServer((socket) => void sockets.add(socket)),
  );
  const waiting = await runHere(['status', '--url', silent], anywhere);
  t.equal(waiting.code, 5);
  t.match(waiting.output, `No service responds at ${silent} within 5 s.`);
  for (const socket of sockets) socket.destroy();
  const other = await startServer(
    t,
    createHttpServer((_request, response) => void response.writeHead(404).end('no')),
  );
  const wrong = await runHere(['status', '--url', other], anywhere);
  t.equal(wrong.code, 1);
  t.match(wrong.output, `${other} is not a Bulkhead service`);
  const sessions = await runHere(['status', '--url', sessionUrl], anywhere);
  t.equal(sessions.code, 1);
  t.match(
    sessions.output,
    `No route has this address: GET ${sessionUrl}/api/sign-in. If this is the session API, which agent runtimes call, pass the address of the REST interface`,
  );
  const gone = await runHere(['status', '--url', 'http://127.0.0.1:9'], anywhere);
  t.equal(gone.code, 5);
  t.match(gone.output, /No service responds at http:\/\/127\.0\.0\.1:9( \(\w+\))?\. Start it with `npm start`/);
});
