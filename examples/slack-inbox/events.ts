/** The used part of Slack's Events API. */
export type Posted =
  | { type: 'url_verification'; challenge: string }
  | { type: 'event_callback'; event_id: string; event: { type: string } & Partial<Message> };

type Message = {
  channel: string;
  user: string;
  text: string;
  ts: string;
  thread_ts: string;
  /** Set for edits, joins and similar messages. */
  subtype: string;
  /** Set for messages of bots, including this app: answering those would never end. */
  bot_id: string;
};

/** Returns the message of a person, or undefined. */
export function readMessage(posted: Posted): Bulkhead.ChannelMessage | undefined {
  if (posted.type !== 'event_callback') return;
  const { type, channel, user, text, ts, thread_ts = ts, subtype, bot_id } = posted.event;
  if (type !== 'message' || subtype || bot_id) return;
  if (!channel || !user || !text || !thread_ts) return;
  // A thread is a conversation: the same key finds the same session.
  return { conversationKey: `${channel}:${thread_ts}`, from: user, text: unescapeText(text) };
}

/** Slack escapes only these three characters. `&amp;` comes last, or `&amp;lt;` would become `<`. */
const unescapeText = (text: string): string =>
  text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');

/** Escapes a reply, so that it cannot mention everybody or contain disguised links. */
export const escapeText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
