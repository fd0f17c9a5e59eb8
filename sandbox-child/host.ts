/** `host`: built from the names the supervisor granted. A member that was not granted does not exist. */
import type { Log } from './log-lines.ts';
import { freeze, text } from './text.ts';

export interface HostGrants {
  /** Such as `llm.complete`. */
  readonly members: readonly string[];
  readonly settings: Readonly<Record<string, string>>;
}
/** Sends one host call and answers what the supervisor answers. Rejects with its refusal. */
export type SendCall = (member: string, args: unknown[]) => Promise<unknown>;

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
