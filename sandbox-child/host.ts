/** Builds the `host` object from the granted names. A member that is not granted does not exist. */
import type { Log } from './log-lines.ts';
import { describeError, freeze, isError, text } from './text.ts';

interface HostGrants {
  /** Names of host calls, such as `llm.complete`. */
  readonly members: readonly string[];
  readonly settings: Readonly<Record<string, string>>;
}
/** Sends a host call and resolves with its result. Rejects with the supervisor's refusal. */
export type SendCall = (member: string, args: unknown[]) => Promise<unknown>;

export function makeHost(grants: HostGrants, call: SendCall, log: Log): object {
  const host: Record<string, unknown> = { log: createLogMember(log), settings: freeze({ ...grants.settings }) };
  for (const member of grants.members) {
    const [group = '', name = ''] = member.split('.');
    if (!Object.hasOwn(host, group)) host[group] = {};
    const methods = host[group] as Record<string, unknown>;
    methods[name] = (...args: unknown[]) => call(member, args);
  }
  return freeze(host);
}

function createLogMember(log: Log): object {
  const show = (message: unknown) => (isError(message) && describeError(message).stack) || text(message);
  const logAt = (level: Parameters<Log>[0]) => (message: unknown, data?: unknown) => log(level, show(message), data);
  const levels = { debug: logAt('debug'), info: logAt('info'), warn: logAt('warn'), error: logAt('error') };
  return Object.assign(logAt('info'), levels);
}
