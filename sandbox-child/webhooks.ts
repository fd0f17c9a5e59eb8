/** `webhooks` for plugins. With the secret itself the child verifies a signature, with a handle of it the supervisor. */
import { FRAME_MAX_BYTES } from './frame.ts';
import type { SendCall } from './host.ts';
import type { Log } from './log-lines.ts';
import { describeError } from './text.ts';
import {
  type Check,
  isSecretFault,
  type Scheme,
  type SignedRequest,
  type Tolerance,
  verifySignature,
} from './webhook-signatures.ts';

/** A handle of a secret, as the supervisor's `SecretHandles` makes it. */
const HANDLE = /^secret:[\w-]+:[0-9a-f]{32}$/;
/** The headers that hold signatures. Only these are sent to the supervisor. */
const SIGNATURE_HEADER = /^((webhook|svix)-|stripe-signature$|x-hub-signature-256$|x-slack-)/;
/** A longer body might not fit into a frame with its headers. */
const SENT_BODY_MAX_BYTES = FRAME_MAX_BYTES - 65_536;

/** One secret, or several of which one must fit; null is one that the user has not set. */
type Secrets = string | readonly (string | null)[];
type ChannelCheck = (request: SignedRequest, secret: Secrets, options?: Tolerance) => Promise<boolean>;

/**
 * Creates the global `webhooks`. Each method resolves with false for an invalid signature and rejects if no secret is usable.
 *
 * @param send sends a host call: the supervisor verifies where the plugin has a handle instead of the secret
 * @param log writes why a body that is too large counts as not signed, and why a secret was skipped
 */
export function createWebhooks(send: SendCall, log: Log): Readonly<Record<string, ChannelCheck>> {
  const verify =
    (scheme: Scheme): Check =>
    (request, secret, options) =>
      HANDLE.test(secret)
        ? sendSigned({ send, log }, scheme, request, secret, options)
        : verifySignature(scheme, request, secret, options);
  const check =
    (scheme: Scheme): ChannelCheck =>
    async (request, secrets, options) => {
      const given = listSecrets(secrets);
      const faults: unknown[] = [];
      for (const secret of given) {
        try {
          if (await verify(scheme)(request, secret, options)) return true;
        } catch (error) {
          if (!isSecretFault(describeError(error).message)) throw error;
          faults.push(error);
        }
      }
      if (faults.length === given.length) throw faults[0];
      // Do not throw: an unsigned request could then stop the channel although another secret is usable.
      if (faults.length > 0) log('warn', `A secret was skipped. ${describeError(faults[0]).message}`);
      return false;
    };
  return {
    verifyStandard: check('Standard'),
    verifyStripe: check('Stripe'),
    verifyGitHub: check('GitHub'),
    verifySlack: check('Slack'),
  };
}

/** Without those that are not set. If none is, an empty one, which fails as a missing secret does. */
function listSecrets(secrets: Secrets): readonly string[] {
  if (!Array.isArray(secrets)) return [secrets as string];
  const given: readonly string[] = secrets.filter((secret) => typeof secret === 'string' && secret !== '');
  return given.length === 0 ? [''] : given;
}

async function sendSigned(
  { send, log }: { readonly send: SendCall; readonly log: Log },
  scheme: Scheme,
  { headers, bodyBytes, receivedAt }: SignedRequest,
  handle: string,
  options: Tolerance = {},
): Promise<boolean> {
  if (bodyBytes.length > SENT_BODY_MAX_BYTES) {
    // An error would fail the delivery, and its retries would hold the channel's queue: anyone could stop a channel with large requests.
    log(
      'warn',
      `webhooks: the body has ${bodyBytes.length} bytes; with a handle of a secret at most ${SENT_BODY_MAX_BYTES} can be verified. Declare the secret without use to verify larger bodies.`,
    );
    return false;
  }
  const signing = Object.entries(headers).filter(([name]) => SIGNATURE_HEADER.test(name));
  const args = [scheme, Object.fromEntries(signing), bodyBytes, handle, options, receivedAt];
  return (await send('secrets.verify', args)) === true;
}
