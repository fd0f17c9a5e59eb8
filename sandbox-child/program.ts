/** The program of a child: waits for a bundle, loads it once, and runs its handlers. */
import type { z } from 'zod';
import type { control, LogLevel } from '../sdk/protocol.ts';
import { endowments } from './endowments.ts';
import type { Message } from './frame.ts';
import { makeHost, queueCalls } from './host.ts';
import { trackInvocations } from './invocations.ts';
import type { Realm } from './realm.ts';
import { openRegistry } from './registry.ts';
import { explain, text } from './text.ts';
import { openWire } from './wire.ts';

type Params<Name extends keyof typeof control> = z.infer<(typeof control)[Name]['params']>;
type LoadResult = z.infer<(typeof control)['load']['result']>;

/** The protocol's bounds of one log line, in characters here; the supervisor counts the bytes again. */
const LOG_MESSAGE_MAX = 8_192;
const LOG_DATA_MAX = 16_384;

/** Says `ready` and serves until the supervisor closes the wire. */
export function serve(realm: Realm): void {
  const wire = openWire(receive);
  const invocations = trackInvocations();
  const registry = openRegistry();
  const answers = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  let serial = 0;
  let grants = { members: [] as readonly string[], settings: {} as Readonly<Record<string, string>> };

  const call = queueCalls((member, args) => {
    const invocationId = invocations.current();
    return new Promise((resolve, reject) => {
      serial += 1;
      wire.send({ id: serial, method: 'hostCall', params: { member, invocationId, args } });
      answers.set(serial, { resolve, reject });
    });
  });
  let lost = 0;
  function log(level: LogLevel, message: string, data?: unknown): void {
    const shown = data === undefined ? undefined : loggable(data);
    const truncated = message.length > LOG_MESSAGE_MAX || (shown?.truncated ?? false);
    const line = { level, message: message.slice(0, LOG_MESSAGE_MAX), invocationId: invocations.current(), truncated };
    const params = shown === undefined ? line : { ...line, data: shown.data };
    if (lost > 0 && wire.offer(notice('warn', `${lost} log lines dropped`))) lost = 0;
    if (!wire.offer({ method: 'log', params })) lost += 1;
  }
  const report = (error: unknown): void => log('error', `uncaught: ${explain(error).stack || explain(error).message}`);
  process.on('uncaughtException', report);
  process.on('unhandledRejection', report);

  async function load(params: Params<'load'>): Promise<LoadResult> {
    grants = params;
    const globals = {
      ...registry.globals,
      ...realm.harden(endowments(log, report)),
      host: makeHost(grants, call, log),
    };
    try {
      realm.evaluate(params.bundle, params.sourceName, globals);
      // "Before the first turn ends": promises that were settled already may still register.
      await new Promise<void>((resolve) => setImmediate(resolve));
      return { outcome: 'loaded', ...registry.seal(params.expected) };
    } catch (error) {
      return { outcome: 'failed', ...explain(error) };
    }
  }

  function invoke(params: Params<'invoke'>): Promise<unknown> {
    const handler = registry.find(params.target);
    const { kind, name } = params.target;
    if (handler) return invocations.run(params, handler);
    return Promise.resolve({ outcome: 'failed', message: `${kind} ${name} is not registered`, stack: '' });
  }

  async function answer(id: number, work: Promise<unknown>): Promise<void> {
    const result = await work;
    try {
      wire.send({ id, result });
    } catch (error) {
      // What the handler answered is no JSON, or threw when looked at.
      wire.send({ id, result: { outcome: 'failed', ...explain(error) } });
    }
  }

  function receive(message: Message): void {
    const { id, method, params } = message;
    if (method === undefined) {
      const waiting = answers.get(id ?? 0);
      answers.delete(id ?? 0);
      if (message.error) waiting?.reject(Object.assign(new Error(message.error.message), { code: message.error.code }));
      else waiting?.resolve(message.result);
    } else if (method === 'invoke') answer(id ?? 0, invoke(params as Params<'invoke'>));
    else if (method === 'load') answer(id ?? 0, load(params as Params<'load'>));
    else if (method === 'abort') invocations.abort((params as Params<'abort'>).invocationId);
    else if (method === 'ping') wire.send({ id: id ?? 0, result: null });
    else if (method === 'configure') {
      grants = params as Params<'configure'>;
      realm.replace({ host: makeHost(grants, call, log) });
    }
  }

  wire.send({ method: 'ready', params: { node: process.version } });
}

const notice = (level: LogLevel, message: string): Message => ({
  method: 'log',
  params: { level, message, invocationId: null, truncated: false },
});

/** Log data as JSON; too much of it, or none, as the beginning of its text. */
function loggable(data: unknown): { data: unknown; truncated: boolean } {
  try {
    const json = JSON.stringify(data);
    if (json !== undefined && json.length <= LOG_DATA_MAX) return { data: JSON.parse(json), truncated: false };
    return { data: (json ?? text(data)).slice(0, LOG_DATA_MAX), truncated: json !== undefined };
  } catch {
    return { data: text(data).slice(0, LOG_DATA_MAX), truncated: false };
  }
}
