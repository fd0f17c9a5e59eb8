/** Sends log lines, truncated to the protocol's limits. The supervisor enforces the limits again. */
import type { LogLevel } from '../sdk/contract/protocol.ts';
import type { SupervisorConnection } from './supervisor-connection.ts';
import { text, toErrorData } from './text.ts';

/** Writes one line. Never throws. */
export type Log = (level: LogLevel, message: string, data?: unknown) => void;

/** The protocol's limits of one line, in characters. The supervisor counts bytes. */
const MESSAGE_MAX_CHARS = 8_192;
const DATA_MAX_CHARS = 16_384;

/** `getInvocationId` returns the invocation whose code is running. */
export function makeLog(supervisor: SupervisorConnection, getInvocationId: () => string | null): Log {
  return (level, message, data) => {
    const shown = data === undefined ? { truncated: false } : toLoggable(data);
    const truncated = message.length > MESSAGE_MAX_CHARS || shown.truncated;
    const line = {
      ...shown,
      level,
      message: message.slice(0, MESSAGE_MAX_CHARS),
      invocationId: getInvocationId(),
      truncated,
    };
    // Sending fails only for data that nests too deeply.
    supervisor.notify('log', line).catch(() => supervisor.notify('log', { ...line, data: text(data) }));
  };
}

/** Converts log data to JSON. Data that is too long or is not JSON becomes truncated text. */
function toLoggable(data: unknown): { data: unknown; truncated: boolean } {
  if (typeof data === 'string') return { data: data.slice(0, DATA_MAX_CHARS), truncated: data.length > DATA_MAX_CHARS };
  try {
    const json = JSON.stringify(data, (_key, value) => (value instanceof Error ? toErrorData(value) : value));
    if (json !== undefined && json.length <= DATA_MAX_CHARS) return { data: JSON.parse(json), truncated: false };
    return { data: (json ?? text(data)).slice(0, DATA_MAX_CHARS), truncated: json !== undefined };
  } catch {
    return { data: text(data).slice(0, DATA_MAX_CHARS), truncated: false };
  }
}
