import { inParts } from './parts.ts';

type Update = { message?: { chat: { id: number }; from?: { username?: string; first_name: string }; text?: string } };

channel.receive = async (request) => {
  // Telegram signs nothing. It repeats the secret it was given with the address, which nobody else knows.
  if (!(await isSame(request.headers['x-telegram-bot-api-secret-token'], await host.secrets.get('webhookSecret')))) {
    host.log.warn('Dropped a request without the webhook secret', { deliveryId: request.deliveryId });
    return;
  }
  const { message }: Update = JSON.parse(request.bodyText);
  // Joins, stickers and edits are updates too.
  if (!message?.text) return;
  const from = message.from?.username ?? message.from?.first_name ?? 'somebody';
  return { messages: [{ conversationKey: String(message.chat.id), from, text: message.text }] };
};

channel.send = async ({ conversationKey, text }) => {
  const token = await host.secrets.get('botToken');
  for (const part of inParts(text)) {
    const answer = await host.http.fetch(`https://api.telegram.org/bot${token}/sendMessage`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ chat_id: conversationKey, text: part }),
    });
    // Thrown, the reply is tried again later. The address holds the token, so it is not in the words.
    if (answer.status !== 200) throw new Error(`Telegram answered ${answer.status}`);
  }
};

/** Compares digests, which say nothing about how much of a wrong secret was right. */
async function isSame(sent: string | undefined, secret: string | null): Promise<boolean> {
  if (!sent || !secret) return false;
  const [one, other] = await Promise.all([sent, secret].map(digest));
  return one === other;
}

async function digest(text: string): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))).join();
}
