/** Those who sign webhook requests without knowing us: vendors' own libraries, and Slack's scheme, which has none, by hand. */
import { createHmac } from 'node:crypto';
import { sign as signGitHub } from '@octokit/webhooks-methods';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as SvixWebhook } from 'svix';

export type SignedHeaders = Record<string, string>;
export interface Signer {
  readonly name: string;
  /** Our helper that checks it, of the global `webhooks`. */
  readonly verify: string;
  /** Whether a signature is good for a while only. */
  readonly dated: boolean;
  /** @param secret as Standard Webhooks have them; the others take it as the text it is */
  sign(body: string, secret: string, at: Date): SignedHeaders | Promise<SignedHeaders>;
}

const seconds = (at: Date): string => String(Math.floor(at.getTime() / 1000));

export const signers: readonly Signer[] = [
  {
    ...{ name: 'standardwebhooks', verify: 'verifyStandard', dated: true },
    sign: (body, secret, at) => ({
      ...{ 'webhook-id': 'msg_1', 'webhook-timestamp': seconds(at) },
      'webhook-signature': `v1,AAAA ${new StandardWebhook(secret).sign('msg_1', at, body)}`,
    }),
  },
  {
    ...{ name: 'svix', verify: 'verifyStandard', dated: true },
    sign: (body, secret, at) => ({
      ...{ 'svix-id': 'msg_2', 'svix-timestamp': seconds(at) },
      'svix-signature': new SvixWebhook(secret).sign('msg_2', at, body),
    }),
  },
  {
    ...{ name: 'stripe', verify: 'verifyStripe', dated: true },
    sign: (payload, secret, at) => ({
      'stripe-signature': new Stripe('sk_test').webhooks.generateTestHeaderString({
        ...{ payload, secret, timestamp: Number(seconds(at)) },
      }),
    }),
  },
  {
    ...{ name: 'octokit', verify: 'verifyGitHub', dated: false },
    sign: async (body, secret) => ({ 'x-hub-signature-256': await signGitHub(secret, body) }),
  },
  {
    ...{ name: 'slack', verify: 'verifySlack', dated: true },
    sign: (body, secret, at) => ({
      'x-slack-request-timestamp': seconds(at),
      'x-slack-signature': `v0=${createHmac('sha256', secret)
        .update(`v0:${seconds(at)}:${body}`)
        .digest('hex')}`,
    }),
  },
];
