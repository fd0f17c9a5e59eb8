/** Separates the headers of a handshake's answer that are sent to the vendor from the others. */
import { HANDSHAKE_HEADERS } from '../../sdk/contract/payloads.ts';

type Headers = Readonly<Record<string, string>>;

/** @returns the headers that are sent, and the line for the plugin's log about the others; null: there are none */
export function splitHandshakeHeaders(headers: Headers = {}): { readonly sent: Headers; readonly note: string | null } {
  const { sent = [], dropped = [] } = Object.groupBy(Object.entries(headers), ([name]) =>
    HANDSHAKE_HEADERS.includes(name.toLowerCase()) ? 'sent' : 'dropped',
  );
  const names = dropped.map(([name]) => name).join(', ');
  const note = `channel.handshake: not sent: ${names}. Allowed headers: ${HANDSHAKE_HEADERS.join(', ')}.`;
  return { sent: Object.fromEntries(sent), note: dropped.length > 0 ? note : null };
}
