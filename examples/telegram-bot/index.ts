import { inParts } from './parts.ts';
import { isRepeated } from './repeats.ts';

type Update = {
  update_id: number;
  message?: { chat: { id: number }; from?: { username?: string; first_name: string }; text?: string };
};

channel.receive = async (request) => {
  // Telegram does not sign requests. It repeats the secret that was registered with the address.
  if (!(await isSame(request.headers['x-telegram-bot-api-secret-token'], await host.secrets.get('webhookSecret')))) {
    host.log.warn('Dropped a request without the webhook secret', { deliveryId: request.deliveryId });
    return;
  }
  const { update_id, message }: Update = JSON.parse(request.bodyText);
  // Joins, stickers and edits are updates, too.
  if (!message?.text) return;
  if (await isRepeated(update_id, request.deliveryId)) return;
  const from = message.from?.username ?? message.from?.first_name ?? 'somebody';
  return { messages: [{ conversationKey: String(message.chat.id), from, text: message.text }] };
};

/** How many parts of a reply were sent. */
type Progress = { deliveryId: string; parts: number };

channel.send = async ({ conversationKey, text, deliveryId }) => {
  const token = await host.secrets.get('botToken');
  // Telegram has no idempotency keys. Replies to a chat come one after the other, so one value for each chat is enough.
  const key = `sent:${conversationKey}`;
  const progress = (await host.storage.get(key)) as Progress | null;
  const done = progress?.deliveryId === deliveryId ? progress.parts : 0;
  const parts = inParts(text);
  for (const [index, part] of parts.entries()) {
    if (index < done) continue;
    const answer = await host.http.fetch(`https://api.telegram.org/bot${token}/sendMessage`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ chat_id: conversationKey, text: part }),
    });
    // When thrown, the reply is retried later. The URL contains the token, so it must not be in the message.
    if (answer.status !== 200) throw new Error(`Telegram answered ${answer.status}`);
    if (parts.length > 1) await storeProgress(key, { deliveryId, parts: index + 1 });
  }
  if (parts.length > 1) await host.storage.delete(key);
};

async function storeProgress(key: string, progress: Progress): Promise<void> {
  try {
    await host.storage.set(key, progress);
  } catch (error) {
    // A full storage must not stop the reply. If a later part fails, the next attempt repeats this one.
    host.log.warn('Could not store how many parts of a reply were sent', { deliveryId: progress.deliveryId, error });
  }
}

/** Compares digests, so that the duration reveals nothing about the secret. */
async function isSame(sent: string | undefined, secret: string | null): Promise<boolean> {
  if (!sent || !secret) return false;
  const [one, other] = await Promise.all([sent, secret].map(digest));
  return one === other;
}

async function digest(text: string): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))).join();
}
