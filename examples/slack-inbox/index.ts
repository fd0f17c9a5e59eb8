import { escapeText, type Posted, readMessage } from './events.ts';
import { isRepeated } from './repeats.ts';

// Slack sends this once when the address is entered, and expects the challenge in the response.
channel.handshakeOn = { jsonType: 'url_verification' };
channel.handshake = async (request) => {
  if (request.method !== 'POST' || !(await isFromSlack(request))) return;
  const posted: Posted = JSON.parse(request.bodyText);
  if (posted.type === 'url_verification') {
    return { status: 200, headers: { 'content-type': 'text/plain' }, body: posted.challenge };
  }
};

channel.receive = async (request) => {
  // Anyone can post to the address, so verify the signature before using the body.
  if (!(await isFromSlack(request))) {
    host.log.warn('Dropped a request that Slack did not sign', { deliveryId: request.deliveryId });
    return;
  }
  const posted: Posted = JSON.parse(request.bodyText);
  const message = readMessage(posted);
  if (posted.type !== 'event_callback' || !message) return;
  if (await isRepeated(posted.event_id, request.deliveryId)) return;
  return { messages: [message] };
};

channel.send = async ({ conversationKey, text }) => {
  const [channelId = '', thread = ''] = conversationKey.split(':');
  const answer = await host.http.fetch('https://slack.com/api/chat.postMessage', {
    method: 'POST',
    headers: {
      authorization: `Bearer ${await host.secrets.get('botToken')}`,
      'content-type': 'application/json; charset=utf-8',
    },
    body: JSON.stringify({ channel: channelId, thread_ts: thread, text: escapeText(text) }),
  });
  // An error is retried later, so throw for every reply that was not sent.
  if (answer.status !== 200) throw new Error(`Slack answered ${answer.status}`);
  const { ok, error } = JSON.parse(answer.bodyText);
  if (!ok) throw new Error(`Slack refused the reply: ${error}`);
};

async function isFromSlack(request: Bulkhead.ChannelRequest): Promise<boolean> {
  // The previous one as well: requests that wait are signed with it.
  const names = ['signingSecret', 'previousSigningSecret'];
  return webhooks.verifySlack(request, await Promise.all(names.map((name) => host.secrets.get(name))));
}
