/**
 * The small process that starts the jails of one supervisor, in its place: `spawner.ts` says why. It knows nothing of
 * plugins, passes their pipes on unread, and ends with its supervisor, as every jail ends with it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { type FromSpawner, INSPECTOR, type SpawnOrder, type ToSpawner } from './spawn-orders.ts';

/** Longest answer of bubblewrap about the child it made, characters. It is under 200. */
const INFO_MAX = 4096;

const running = new Map<number, ChildProcess>();

process.title = 'bulkhead-spawner';
// Its supervisor's end. The channel would tell that too, but not while a stream is still on its way.
process.stdin.resume().once('close', () => process.exit());
process.on('disconnect', () => process.exit());
// A service manager may ask every process of the service to stop. The supervisor drains first, and needs its plugins for it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.on('message', (message: ToSpawner) => {
  if (message.kind === 'spawn') start(message.id, message.order);
  else running.get(message.id)?.kill('SIGKILL');
});

function start(id: number, order: SpawnOrder): void {
  const ended = (code: number | null, signal: NodeJS.Signals | null) => {
    running.delete(id);
    tell({ kind: 'ended', id, code, signal });
  };
  try {
    const child = launch(order);
    running.set(id, child);
    child.once('exit', ended);
    child.once('error', (error) => {
      console.error(error);
      ended(null, null);
    });
    if (child.pid === undefined) return;
    const streams = letGo(child);
    for (const fd of [0, 1, 2] as const) tell({ kind: 'stream', id, fd }, unread(streams[fd] as Socket));
    const last = streams.at(-1) as Socket;
    if (order.inspectable) tell({ kind: 'stream', id, fd: INSPECTOR }, unread(last));
    if (order.tellsInside) void tellInside(id, streams[3 + order.files.length] as Readable);
    else tell({ kind: 'inside', id, pid: child.pid });
  } catch (error) {
    console.error(error);
    ended(null, null);
  }
}

function launch({ args, files, tellsInside, inspectable, ...identity }: SpawnOrder): ChildProcess {
  const opened = files.map((path) => openSync(path, 'r'));
  try {
    return spawn('/bin/sh', args, {
      ...identity,
      // An own session: a Ctrl-C at the operator's terminal is for the supervisor, which drains first.
      detached: true,
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'pipe', ...opened, ...pipes(tellsInside), ...pipes(inspectable)],
    });
  } finally {
    for (const file of opened) closeSync(file);
  }
}

const pipes = (wanted: boolean): readonly 'pipe'[] => (wanted ? ['pipe'] : []);

/** Its streams, which it would close and drain at its end: by then they may still wait for their passage. */
function letGo(child: ChildProcess): readonly unknown[] {
  const streams = [...child.stdio];
  Object.assign(child, { stdin: null, stdout: null, stderr: null, stdio: [] });
  return streams;
}

interface Handle {
  reading: boolean;
  readStop(): void;
}
/** Reads no more, from before anything could be read: every byte is the supervisor's. Node has no public call for it. */
function unread(socket: Socket): Socket {
  const { _handle: handle } = socket as unknown as { _handle: Handle };
  handle.reading = false;
  handle.readStop();
  return socket;
}

/** A jail that cannot be built ends without a word here. */
async function tellInside(id: number, info: Readable): Promise<void> {
  let text = '';
  info.on('error', () => undefined);
  for await (const chunk of info) {
    text += String(chunk);
    if (text.includes('}') || text.length > INFO_MAX) break;
  }
  const pid = /"child-pid": (\d+)/.exec(text)?.[1];
  if (pid !== undefined) tell({ kind: 'inside', id, pid: Number(pid) });
}

function tell(message: FromSpawner, socket?: Socket): void {
  // Without its supervisor it is about to end.
  if (process.connected) process.send?.(message, socket);
}
