/** Shares of the SSH connections of a supervisor. Its own file, because it needs no SSH server. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import ssh2, { type AuthContext, type AuthenticationType, type Prompt, type ServerChannel } from 'ssh2';
import t, { type Test } from 'tap';
import { KIB, MIB } from '../../../sdk/contract/limits.ts';
import { HostLimitError } from '../../../supervisor/host/host-call.ts';
import type { SshHost } from '../../../supervisor/host/ssh/account-hosts.ts';
import { type SshConnection, SshConnections } from '../../../supervisor/host/ssh/connections.ts';
import { runRemote } from '../../../supervisor/host/ssh/remote-command.ts';
import { collectGarbage } from '../../fixtures/collect-garbage.ts';
import { generateSshKeys } from '../../fixtures/ssh-keys.ts';

/** A host that does not answer before the call ends. */
const host: SshHost = {
  id: 'h',
  name: 'slow',
  port: 22,
  user: 'u',
  hostKeys: ['SHA256:x'],
  revision: '',
  managedBy: 'account',
  prepare: async (signal) => {
    await once(signal, 'abort');
    throw new Error('the call ended');
  },
};

t.test('no account takes all connections', async (t) => {
  const connections = new SshConnections({ total: 6, perInstallation: 4, idleMs: 60_000 });
  const calls = new AbortController();
  const endOf = (work: Promise<unknown>) =>
    work.then(
      () => 'connected',
      (error: Error) => error.message,
    );
  const acquire = (accountId: string, connectionOwner: string) =>
    endOf(connections.acquire({ accountId, connectionOwner }, host, calls.signal));
  const ends = ['a1', 'a2', 'a3', 'a4', 'a5'].map((installation) => acquire('ann', installation));
  ends.push(endOf(connections.test({ accountId: 'ann', connectionOwner: 'tests' }, host, calls.signal)));
  ends.push(acquire('ben', 'b1'));
  calls.abort();
  const begun = 'the call ended';
  const refused = 'this account runs 4 SSH commands; try again when one has ended';
  t.same(await Promise.all(ends), [begun, begun, begun, begun, refused, refused, begun]);
});

t.test('an owner may have a maximum of its own', async (t) => {
  const connections = new SshConnections({ total: 100, perInstallation: 1, idleMs: 60_000 });
  const calls = new AbortController();
  const acquire = (agents: object) =>
    connections
      .acquire({ accountId: 'ann', connectionOwner: 'agents', ...agents }, host, calls.signal)
      .catch(({ message }: Error) => message);
  const ends = [1, 2, 3, 4].map(() => acquire({ connectionsMax: 3 }));
  ends.push(acquire({ connectionOwner: 'a1' }), acquire({ connectionOwner: 'a1' }));
  calls.abort();
  const begun = 'the call ended';
  const refuse = (max: number) => `${max} SSH commands are running already; try again when one has ended`;
  t.same(await Promise.all(ends), [begun, begun, begun, refuse(3), begun, refuse(1)]);
});

const acceptAll = (attempt: AuthContext): void => attempt.accept();

/** An SSH server that never closes its side of a connection. */
async function startOpenServer(test: Test, onLogin = acceptAll) {
  const { private: privateKey, public: publicKey } = generateSshKeys('ed25519');
  const protocol = new ssh2.Server({ hostKeys: [privateKey] }, (client) => {
    client.on('error', () => undefined);
    client.on('authentication', onLogin);
  });
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    const kept = new Proxy(socket, {
      get: (target, name) => {
        if (name === 'end' || name === 'destroy') return () => kept;
        const value = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    protocol.injectSocket(kept);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const blob = Buffer.from(publicKey.split(' ')[1] ?? '', 'base64');
  const fingerprint = `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
  const send = (bytes: Buffer): void => sockets.forEach((socket) => void socket.write(bytes));
  const end = (): void => sockets.forEach((socket) => void socket.end());
  return { port: (server.address() as AddressInfo).port, fingerprint, send, end };
}

const owner = { accountId: 'ann', connectionOwner: 'a1' };
const openHost = ({ port, fingerprint }: { port: number; fingerprint: string }): SshHost => ({
  ...host,
  port,
  hostKeys: [fingerprint],
  prepare: async () => ({ address: '127.0.0.1', password: 'p' }),
});

const HIDDEN: Prompt = { prompt: 'Password: ', echo: false };
const logins: readonly {
  readonly title: string;
  readonly methods?: AuthenticationType[];
  /** Whether the host accepts the first method, and asks for the others as well. */
  readonly isPartial?: boolean;
  readonly questions: Prompt[][];
  readonly answers: string[][];
  readonly fault: string | null;
}[] = [
  { title: 'is the answer to one hidden question', questions: [[HIDDEN]], answers: [['p']], fault: null },
  {
    title: 'is no answer to a question whose answer is shown',
    questions: [[{ prompt: 'User: ', echo: true }]],
    answers: [['']],
    fault: 'slow does not accept the configured password',
  },
  {
    title: 'is no answer to a second question',
    questions: [[HIDDEN], [{ prompt: 'Code: ', echo: false }]],
    answers: [['p'], ['']],
    fault: 'slow does not accept the configured password',
  },
  {
    title: 'is no answer to one of several questions',
    questions: [[HIDDEN, HIDDEN]],
    answers: [['', '']],
    fault: 'slow does not accept the configured password',
  },
  {
    title: 'is sent once to a host that takes passwords and refuses it',
    methods: ['password', 'keyboard-interactive'],
    questions: [[HIDDEN]],
    answers: [],
    fault: 'slow does not accept the configured password',
  },
  {
    title: 'is no answer to the question for a code that follows it',
    isPartial: true,
    questions: [[HIDDEN]],
    answers: [],
    fault: 'slow does not accept the configured password',
  },
];
const asksOnly: AuthenticationType[] = ['keyboard-interactive'];
for (const { title, methods = asksOnly, isPartial = false, questions, answers, fault } of logins)
  t.test(`a password ${title}`, async (t) => {
    const received: string[][] = [];
    const server = await startOpenServer(t, (attempt) => {
      if (attempt.method !== 'keyboard-interactive') return attempt.reject(methods, isPartial);
      const ask = ([question, ...others]: Prompt[][]): void => {
        const isAccepted = question === undefined && received.flat().every((answer) => answer === 'p');
        if (isAccepted) attempt.accept();
        else if (question === undefined) attempt.reject();
        else
          attempt.prompt(question, (given) => {
            received.push(given);
            ask(others);
          });
      };
      ask(questions);
    });
    const tested = await new SshConnections().test(owner, openHost(server), new AbortController().signal);
    t.same(tested, { hostKey: server.fingerprint, fault });
    t.same(received, answers);
  });

t.test('a connection that is kept and meets an error is not used again', async (t) => {
  const server = await startOpenServer(t);
  const connections = new SshConnections();
  const connection = await connections.acquire(owner, openHost(server), new AbortController().signal);
  connections.giveBack(connection);
  t.equal(connections.size, 1);
  const failed = once(connection.client, 'error');
  server.send(Buffer.alloc(64, 1));
  await failed;
  t.equal(connections.size, 0);
  await once(connection.client, 'close');
});

t.test('a connection that is kept and that the host ends is not used again', async (t) => {
  const server = await startOpenServer(t);
  const connections = new SshConnections();
  const connection = await connections.acquire(owner, openHost(server), new AbortController().signal);
  connections.giveBack(connection);
  const ended = once(connection.client, 'end');
  server.end();
  await ended;
  t.equal(connections.size, 0);
  const run = { line: 'ls', input: '', timeoutMs: 60_000, signal: new AbortController().signal };
  await t.rejects(runRemote(connection, run), {
    name: 'HostError',
    message: 'the host ended the connection before the command was started',
  });
});

t.test('a limit of connections fails a test of a host, and is no fault of the host', async (t) => {
  const connections = new SshConnections();
  const limited = { ...host, prepare: () => Promise.reject(new HostLimitError('rate limit exceeded', 2)) };
  const tested = connections.test(owner, limited, new AbortController().signal);
  await t.rejects(tested, { message: 'rate limit exceeded', retryAfter: 2 });
});

t.test('a connection is closed by force if the host keeps its side open', async (t) => {
  const server = await startOpenServer(t);
  const { fingerprint } = server;
  const connections = new SshConnections();
  const open = openHost(server);
  const connection = await connections.acquire(owner, open, new AbortController().signal);
  connections.end(connection);
  await once(connection.client, 'close');
  t.ok(connection.socket.destroyed);
  const tested = await connections.test(owner, { ...open, hostKeys: [] }, new AbortController().signal);
  t.match(tested, { hostKey: fingerprint, fault: /no pinned host key/ });
  t.equal(connections.size, 0);
});

/** An SSH server that accepts every login, and lets `onCommand` answer each command. */
async function startCommandServer(test: Test, onCommand: (channel: ServerChannel) => void): Promise<SshHost> {
  const { private: privateKey, public: publicKey } = generateSshKeys('ed25519');
  const server = new ssh2.Server({ hostKeys: [privateKey] }, (client) => {
    client.on('error', () => undefined);
    client.on('authentication', (attempt) => attempt.accept());
    client.on('session', (accept) => accept().on('exec', (start) => onCommand(start())));
    test.teardown(() => client.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.teardown(() => server.close());
  const blob = Buffer.from(publicKey.split(' ')[1] ?? '', 'base64');
  const fingerprint = `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
  return openHost({ port: (server.address() as AddressInfo).port, fingerprint });
}

const runOn = (connection: SshConnection, input = '') =>
  runRemote(connection, { line: 'x', input, timeoutMs: 600_000, signal: new AbortController().signal });

t.test('commands with the largest input and output do not use up the processor time of their account', async (t) => {
  const output = Buffer.alloc(256 * KIB, 'x');
  const open = await startCommandServer(t, (channel) => {
    let bytes = 0;
    channel.on('data', (part: Buffer) => {
      bytes += part.byteLength;
      if (bytes < MIB) return;
      channel.write(output);
      channel.stderr.write(output);
      channel.exit(0);
      channel.end();
    });
  });
  const connections = new SshConnections(undefined, () => 0);
  const connection = await connections.acquire(owner, open, new AbortController().signal);
  for (let command = 0; command < 3; command += 1) {
    const { exitCode, stdout, stderr } = await runOn(connection, 'y'.repeat(MIB));
    t.same([exitCode, stdout.length, stderr.length], [0, 256 * KIB, 256 * KIB]);
  }
  connections.close();
});

t.test('an output that comes byte by byte takes little more memory than its bytes', async (t) => {
  const bytes = 100_000;
  const sent = Promise.withResolvers<ServerChannel>();
  const open = await startCommandServer(t, async (channel) => {
    for (let byte = 0; byte < bytes; byte += 1) await new Promise((resolve) => channel.write('x', resolve));
    sent.resolve(channel);
  });
  const connections = new SshConnections();
  const connection = await connections.acquire(owner, open, new AbortController().signal);
  const before = (await collectGarbage()).heapUsed;
  const running = runOn(connection);
  const channel = await sent.promise;
  // The host answers it after the bytes that it sent before.
  await new Promise((resolve) => connection.client.forwardIn('127.0.0.1', 0, resolve));
  const held = (await collectGarbage()).heapUsed - before;
  t.ok(held < 3 * MIB, `${held} bytes for ${bytes}`);
  channel.exit(0);
  channel.end();
  t.equal((await running).stdout.length, bytes);
  connections.close();
});

t.test('a command whose host sends much more than the output that is kept is ended', async (t) => {
  const part = Buffer.alloc(MIB);
  const open = await startCommandServer(t, (channel) => {
    channel.on('error', () => undefined);
    const flood = (): void => {
      while (!channel.destroyed && channel.write(part));
    };
    channel.on('drain', flood);
    flood();
  });
  const connections = new SshConnections();
  const connection = await connections.acquire(owner, open, new AbortController().signal);
  await t.rejects(runOn(connection), {
    name: 'HostError',
    message:
      'the host sent more than 16777216 bytes, so it was told to end the command; some SSH servers let it run on. Write a large output to a file of the host',
  });
  connections.close();
  await once(connection.client, 'close');
});
