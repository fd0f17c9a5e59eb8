/**
 * The process that starts the jails of one supervisor; see `spawner.ts` for the reason. It passes the pipes on without reading
 * them and ends with its supervisor. Every jail ends with it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { yieldThread } from '../../service/lifecycle/priority.ts';
import { readProcessStat } from '../../service/lifecycle/process-stat.ts';
import { type FromSpawner, INSPECTOR, type SpawnOrder, type ToSpawner } from './spawn-orders.ts';
import { stopReading } from './stop-reading.ts';

/** Longest report of bubblewrap about the process inside, characters. Usually under 200. */
const INFO_MAX = 4096;

const running = new Map<number, ChildProcess>();
/** Ends that this turn of the event loop has seen. */
let ended: Omit<FromSpawner & { kind: 'ended' }, 'processorMs'>[] = [];
/** CPU time of all children that have ended, milliseconds. */
let endedMs = 0;

process.title = 'bulkhead-spawner';
// Until its control group exists, a starting Node would compete with the supervisor itself; then the group's weight counts.
// Without control groups its children keep the priority.
yieldThread();
// stdin closes when the supervisor ends. The channel's `disconnect` comes later while a stream is being sent.
process.stdin.resume().once('close', () => process.exit());
process.on('disconnect', () => process.exit());
// A service manager may signal every process of the service. The supervisor needs its plugins while it drains.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.on('message', (message: ToSpawner) => {
  if (message.kind === 'spawn') start(message.id, message.order);
  else running.get(message.id)?.kill('SIGKILL');
});

function start(id: number, order: SpawnOrder): void {
  const reportEnd = (code: number | null, signal: NodeJS.Signals | null) => {
    running.delete(id);
    if (ended.length === 0) setImmediate(reportEnds);
    ended.push({ kind: 'ended', id, code, signal });
  };
  try {
    const child = launch(order);
    running.set(id, child);
    child.once('exit', reportEnd);
    child.once('error', (error) => {
      console.error(error);
      reportEnd(null, null);
    });
    if (child.pid === undefined) return;
    const streams = detachStreams(child);
    // Before the first byte: the supervisor must get every byte.
    for (const fd of [0, 1, 2] as const) send({ kind: 'stream', id, fd }, stopReading(streams[fd] as Socket));
    const last = streams.at(-1) as Socket;
    if (order.inspectable) send({ kind: 'stream', id, fd: INSPECTOR }, stopReading(last));
    // A child without its report does not become ready. This process must not end for it: that ends all children.
    if (order.reportsInside) sendInsidePid(id, streams[3 + order.files.length] as Readable).catch(console.error);
    else send({ kind: 'inside', id, pid: child.pid });
  } catch (error) {
    console.error(error);
    reportEnd(null, null);
  }
}

/**
 * The kernel tells the CPU time of a child only when it is reaped, as a part of the sum of all. Children that were reaped in
 * the same turn share what it grew by.
 */
function reportEnds(): void {
  const ends = ended;
  ended = [];
  const totalMs = readProcessStat(process.pid)?.childrenProcessorMs ?? endedMs;
  const processorMs = (totalMs - endedMs) / ends.length;
  endedMs = totalMs;
  for (const end of ends) send({ ...end, processorMs });
}

function launch({ args, files, reportsInside, inspectable, ...identity }: SpawnOrder): ChildProcess {
  const opened = files.map((path) => openSync(path, 'r'));
  try {
    return spawn('/bin/sh', args, {
      ...identity,
      // In a session of its own, so that Ctrl-C in the operator's terminal reaches only the supervisor, which drains first.
      detached: true,
      env: {},
      cwd: '/',
      stdio: ['pipe', 'pipe', 'pipe', ...opened, ...listPipes(reportsInside), ...listPipes(inspectable)],
    });
  } finally {
    for (const file of opened) closeSync(file);
  }
}

const listPipes = (wanted: boolean): readonly 'pipe'[] => (wanted ? ['pipe'] : []);

/** Takes the streams from the child process, which would close them at its exit before they are sent to the supervisor. */
function detachStreams(child: ChildProcess): readonly unknown[] {
  const streams = [...child.stdio];
  Object.assign(child, { stdin: null, stdout: null, stderr: null, stdio: [] });
  return streams;
}

/** Sends nothing if bubblewrap could not build the jail. */
async function sendInsidePid(id: number, info: Readable): Promise<void> {
  let text = '';
  for await (const chunk of info) {
    text += String(chunk);
    if (text.includes('}') || text.length > INFO_MAX) break;
  }
  const pid = /"child-pid": (\d+)/.exec(text)?.[1];
  if (pid !== undefined) send({ kind: 'inside', id, pid: Number(pid) });
}

function send(message: FromSpawner, socket?: Socket): void {
  // Without the supervisor this process is about to exit.
  if (process.connected) process.send?.(message, socket, undefined, () => undefined);
}
