/** What independent signers sign verifies inside a jailed plugin; altered, stale or differently signed requests do not. */
import { createHmac } from 'node:crypto';
import { sign as signGitHub } from '@octokit/webhooks-methods';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as SvixWebhook } from 'svix';
import t from 'tap';
import { bundleOf, callTool, testChild, testJail, toolOf } from './jailed-child.ts';

const BODY = '{"type":"order.paid","note":"ünïcödé ✓"}';
const SECRET = `whsec_${Buffer.from('a secret of twenty-four b').toString('base64')}`;
const OTHER = `whsec_${Buffer.from('another secret, same form').toString('base64')}`;

type Headers = Record<string, string>;
interface Scheme {
  readonly name: string;
  readonly verify: string;
  readonly signed: (at: Date) => Headers | Promise<Headers>;
  readonly dated: boolean;
}

const seconds = (at: Date): string => String(Math.floor(at.getTime() / 1000));

const schemes: readonly Scheme[] = [
  {
    ...{ name: 'standardwebhooks', verify: 'verifyStandard', dated: true },
    signed: (at) => ({
      ...{ 'webhook-id': 'msg_1', 'webhook-timestamp': seconds(at) },
      'webhook-signature': `v1,AAAA ${new StandardWebhook(SECRET).sign('msg_1', at, BODY)}`,
    }),
  },
  {
    ...{ name: 'svix', verify: 'verifyStandard', dated: true },
    signed: (at) => ({
      ...{ 'svix-id': 'msg_2', 'svix-timestamp': seconds(at) },
      'svix-signature': new SvixWebhook(SECRET).sign('msg_2', at, BODY),
    }),
  },
  {
    ...{ name: 'stripe', verify: 'verifyStripe', dated: true },
    signed: (at) => ({
      'stripe-signature': new Stripe('sk_test').webhooks.generateTestHeaderString({
        ...{ payload: BODY, secret: SECRET, timestamp: Number(seconds(at)) },
      }),
    }),
  },
  {
    ...{ name: 'octokit', verify: 'verifyGitHub', dated: false },
    signed: async () => ({ 'x-hub-signature-256': await signGitHub(SECRET, BODY) }),
  },
  {
    ...{ name: 'slack', verify: 'verifySlack', dated: true },
    signed: (at) => ({
      'x-slack-request-timestamp': seconds(at),
      'x-slack-signature': `v0=${createHmac('sha256', SECRET)
        .update(`v0:${seconds(at)}:${BODY}`)
        .digest('hex')}`,
    }),
  },
];

t.test('signatures are checked inside a plugin', async (t) => {
  const child = testChild(t, await testJail(t));
  await child.load(
    bundleOf(
      toolOf(
        'return String(await webhooks[args.verify]({ headers: args.headers, bodyBytes: args.body }, args.secret));',
      ),
    ),
  );
  const check = async (scheme: Scheme, headers: Headers, body = BODY, secret = SECRET): Promise<unknown> => {
    const outcome = await callTool(child, 'run', { verify: scheme.verify, headers, body: Buffer.from(body), secret });
    return outcome.outcome === 'answered'
      ? outcome.answer
      : outcome.outcome === 'failed'
        ? outcome.message
        : 'cancelled';
  };
  for (const scheme of schemes) {
    const headers = await scheme.signed(new Date());
    t.equal(await check(scheme, headers), 'true', `${scheme.name}: as it was signed`);
    t.equal(await check(scheme, headers, `${BODY} `), 'false', `${scheme.name}: altered body`);
    t.equal(await check(scheme, headers, BODY, OTHER), 'false', `${scheme.name}: another secret`);
    t.equal(await check(scheme, {}), 'false', `${scheme.name}: unsigned`);
    t.match(await check(scheme, headers, BODY, ''), /secret is missing/, `${scheme.name}: no secret`);
    if (!scheme.dated) continue;
    for (const away of [-301_000, 302_000]) {
      const stale = await scheme.signed(new Date(Date.now() + away));
      t.equal(await check(scheme, stale), 'false', `${scheme.name}: ${away} ms away`);
    }
  }
});
