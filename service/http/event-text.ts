/** Formats server-sent events. */

interface EventFields {
  readonly id?: string;
  readonly type: string;
  readonly data: unknown;
}

/** Formats one event. JSON contains no line break, so the data is one line. */
export const formatEvent = ({ id, type, data }: EventFields): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;

/** A comment, which keeps proxies from closing a quiet connection. */
export const HEARTBEAT_TEXT = ': heartbeat\n\n';
