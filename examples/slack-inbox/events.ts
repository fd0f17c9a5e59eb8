/** The part of Slack's Events API that matters here. */
export type Posted =
  | { type: 'url_verification'; challenge: string }
  | { type: 'event_callback'; event: { type: string } & Partial<Message> };

type Message = {
  channel: string;
  user: string;
  text: string;
  ts: string;
  thread_ts: string;
  /** On edits, joins and the like. */
  subtype: string;
  /** On what bots wrote, this app included: answering that would never end. */
  bot_id: string;
};

/** The message that a person wrote, or nothing. */
export function readMessage(posted: Posted): Bulkhead.ChannelMessage | undefined {
  if (posted.type !== 'event_callback') return;
  const { type, channel, user, text, ts, thread_ts = ts, subtype, bot_id } = posted.event;
  if (type !== 'message' || subtype || bot_id) return;
  if (!channel || !user || !text || !thread_ts) return;
  // A thread is a conversation: the same key always finds the same session.
  return { conversationKey: `${channel}:${thread_ts}`, from: user, text: unescaped(text) };
}

/** Slack escapes these three and nothing else. `&amp;` comes last, or `&amp;lt;` would turn into `<`. */
const unescaped = (text: string): string =>
  text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');

/** The other way round: a reply cannot mention everybody or make links that look like others. */
export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
