/** `host`: built from the names the supervisor granted. A member that was not granted does not exist. */
import type { Log } from './endowments.ts';
import { freeze, text } from './text.ts';

/** Calls on their way, and behind them waiting here. More are refused at once: nobody reads 100,000 answers. */
const CALLS_IN_FLIGHT = 16;
const CALLS_WAITING = 64;

export interface HostGrants {
  /** Such as `llm.complete`. */
  readonly members: readonly string[];
  readonly settings: Readonly<Record<string, string>>;
}
/** Sends one host call and answers what the supervisor answers. Rejects with its refusal. */
export type SendCall = (member: string, args: unknown[]) => Promise<unknown>;

/** Calls in order, a bounded number at once. */
export function queueCalls(send: SendCall): SendCall {
  const waiting: (() => void)[] = [];
  let flying = 0;
  const land = (): void => {
    const next = waiting.shift();
    if (next) next();
    else flying -= 1;
  };
  return async (member, args) => {
    if (flying < CALLS_IN_FLIGHT) flying += 1;
    else if (waiting.length >= CALLS_WAITING) {
      throw new Error(`host.${member}: ${CALLS_IN_FLIGHT + CALLS_WAITING} calls are on their way, wait for some`);
    } else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await send(member, args);
    } finally {
      land();
    }
  };
}

/** The frozen `host` object of these grants. */
export function makeHost(grants: HostGrants, call: SendCall, log: Log): object {
  const host: Record<string, unknown> = { log: logMember(log), settings: freeze({ ...grants.settings }) };
  for (const member of grants.members) {
    const [group = '', name = ''] = member.split('.');
    if (!Object.hasOwn(host, group)) host[group] = {};
    const methods = host[group] as Record<string, unknown>;
    methods[name] = (...args: unknown[]) => call(member, args);
  }
  return freeze(host);
}

function logMember(log: Log): object {
  const at = (level: Parameters<Log>[0]) => (message: unknown, data?: unknown) => log(level, text(message), data);
  const levels = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  return Object.assign(at('info'), levels);
}
