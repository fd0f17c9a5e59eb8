/** `webhooks` for plugins. With the secret itself the child verifies a signature, with a handle of it the supervisor. */
import type { SendCall } from './host.ts';
import { type Check, type Scheme, type SignedRequest, type Tolerance, verifySignature } from './webhook-signatures.ts';

/** A handle of a secret, as the supervisor's `SecretHandles` makes it. */
const HANDLE = /^secret:[\w-]+:[0-9a-f]{32}$/;
/** The headers that hold signatures. Only these are sent to the supervisor. */
const SIGNATURE_HEADER = /^((webhook|svix)-|stripe-signature$|x-hub-signature-256$|x-slack-)/;

/**
 * Creates the global `webhooks`. Each method resolves with false for an invalid signature and rejects for a bad secret.
 *
 * @param send sends a host call: the supervisor verifies where the plugin has a handle instead of the secret
 */
export function createWebhooks(send: SendCall): Readonly<Record<string, Check>> {
  const check =
    (scheme: Scheme): Check =>
    (request, secret, options) =>
      HANDLE.test(secret)
        ? sendSigned(send, scheme, request, secret, options)
        : verifySignature(scheme, request, secret, options);
  return {
    verifyStandard: check('Standard'),
    verifyStripe: check('Stripe'),
    verifyGitHub: check('GitHub'),
    verifySlack: check('Slack'),
  };
}

async function sendSigned(
  send: SendCall,
  scheme: Scheme,
  { headers, bodyBytes }: SignedRequest,
  handle: string,
  options: Tolerance = {},
): Promise<boolean> {
  const signing = Object.entries(headers).filter(([name]) => SIGNATURE_HEADER.test(name));
  return (await send('secrets.verify', [scheme, Object.fromEntries(signing), bodyBytes, handle, options])) === true;
}
