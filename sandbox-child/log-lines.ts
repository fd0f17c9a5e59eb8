/** Log lines on their way out: cut to size here, counted again by the supervisor. */
import type { LogLevel } from '../sdk/contract/protocol.ts';
import type { SupervisorConnection } from './supervisor-connection.ts';
import { errorData, text } from './text.ts';

/** Writes one line. Never throws. */
export type Log = (level: LogLevel, message: string, data?: unknown) => void;

/** The protocol's bounds of one line, in characters here; the supervisor counts the bytes. */
const MESSAGE_MAX_CHARS = 8_192;
const DATA_MAX_CHARS = 16_384;

/** A writer of lines. `invocation` answers the invocation whose code is running. */
export function makeLog(supervisor: SupervisorConnection, invocation: () => string | null): Log {
  return (level, message, data) => {
    const shown = data === undefined ? { truncated: false } : loggable(data);
    const truncated = message.length > MESSAGE_MAX_CHARS || shown.truncated;
    const line = {
      ...shown,
      level,
      message: message.slice(0, MESSAGE_MAX_CHARS),
      invocationId: invocation(),
      truncated,
    };
    // Data that nests too deeply is all that cannot be sent.
    supervisor.notify('log', line).catch(() => supervisor.notify('log', { ...line, data: text(data) }));
  };
}

/** Log data as JSON; too much of it, or none, as the beginning of its text. */
function loggable(data: unknown): { data: unknown; truncated: boolean } {
  if (typeof data === 'string') return { data: data.slice(0, DATA_MAX_CHARS), truncated: data.length > DATA_MAX_CHARS };
  try {
    const json = JSON.stringify(data, (_key, value) => (value instanceof Error ? errorData(value) : value));
    if (json !== undefined && json.length <= DATA_MAX_CHARS) return { data: JSON.parse(json), truncated: false };
    return { data: (json ?? text(data)).slice(0, DATA_MAX_CHARS), truncated: json !== undefined };
  } catch {
    return { data: text(data).slice(0, DATA_MAX_CHARS), truncated: false };
  }
}
