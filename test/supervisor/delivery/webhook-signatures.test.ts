/** Signatures of independent signers verify inside a jailed plugin; altered, stale or differently signed requests do not. */
import t from 'tap';
import { type SignedHeaders, type Signer, signers } from '../../fixtures/signers.ts';
import { bundleOf, callTool, testChild, testJail, toolOf } from '../children/jailed-child.ts';

const BODY = '{"type":"order.paid","note":"ünïcödé ✓"}';
const SECRET = `whsec_${Buffer.from('a secret of twenty-four b').toString('base64')}`;
const OTHER = `whsec_${Buffer.from('another secret, same form').toString('base64')}`;

t.test('signatures are checked inside a plugin', async (t) => {
  const child = testChild(t, await testJail(t));
  await child.load(
    bundleOf(
      toolOf(
        'const { verify, body, secret, toleranceSeconds, ...rest } = args; return String(await webhooks[verify]({ ...rest, bodyBytes: body }, secret, { toleranceSeconds }));',
      ),
    ),
  );
  type Secrets = string | readonly (string | null)[];
  const check = async (
    scheme: Signer,
    headers: SignedHeaders,
    body = BODY,
    secret: Secrets = SECRET,
    rest: object = {},
  ) => {
    const args = { verify: scheme.verify, headers, body: Buffer.from(body), secret, ...rest };
    const outcome = await callTool(child, 'run', args);
    return outcome.outcome === 'answered'
      ? outcome.answer
      : outcome.outcome === 'failed'
        ? outcome.message
        : 'cancelled';
  };
  const handle = `secret:signing:${'0'.repeat(32)}`;
  for (const scheme of signers) {
    t.equal(await check(scheme, {}, 'x'.repeat(5_242_880), handle), 'false', `${scheme.name}: too large for the host`);
    t.match(
      child.lines.at(-1)?.message,
      /^webhooks: the body has 5242880 bytes; with a handle of a secret at most 4128768 can be verified\./,
    );
    const headers = await scheme.sign(BODY, SECRET, new Date());
    t.equal(await check(scheme, headers), 'true', `${scheme.name}: as it was signed`);
    t.equal(await check(scheme, headers, `${BODY} `), 'false', `${scheme.name}: altered body`);
    t.equal(await check(scheme, headers, BODY, OTHER), 'false', `${scheme.name}: another secret`);
    t.equal(await check(scheme, headers, BODY, [OTHER, SECRET]), 'true', `${scheme.name}: one of several secrets`);
    t.equal(await check(scheme, headers, BODY, [SECRET, null]), 'true', `${scheme.name}: one of them is not set`);
    t.equal(await check(scheme, headers, BODY, [OTHER, OTHER]), 'false', `${scheme.name}: none of several secrets`);
    t.match(await check(scheme, headers, BODY, [null]), /secret is missing/, `${scheme.name}: none is set`);
    t.equal(await check(scheme, {}), 'false', `${scheme.name}: unsigned`);
    if (scheme.verify === 'verifyStandard') {
      const malformed = 'no base64!';
      t.equal(await check(scheme, headers, BODY, [malformed, SECRET]), 'true', `${scheme.name}: a malformed one first`);
      t.equal(await check(scheme, {}, BODY, [SECRET, malformed]), 'false', `${scheme.name}: unsigned, one malformed`);
      t.match(child.lines.at(-1)?.message, /^A secret was skipped\. webhooks: the secret is not base64\./);
      for (const secret of [malformed, [malformed], [malformed, null]])
        t.match(await check(scheme, headers, BODY, secret), /not base64/, `${scheme.name}: none is usable`);
    }
    t.match(await check(scheme, headers, BODY, ''), /secret is missing/, `${scheme.name}: no secret`);
    if (!scheme.dated) continue;
    // The second one is within the tolerance a minute later.
    for (const away of [-301_000, 360_000]) {
      const stale = await scheme.sign(BODY, SECRET, new Date(Date.now() + away));
      t.equal(await check(scheme, stale), 'false', `${scheme.name}: ${away} ms away`);
    }
    const signedAt = Date.now() - 3_600_000;
    const waited = await scheme.sign(BODY, SECRET, new Date(signedAt));
    const arrived = (seconds: number, toleranceSeconds?: number) =>
      check(scheme, waited, BODY, SECRET, {
        receivedAt: new Date(signedAt + seconds * 1000).toISOString(),
        toleranceSeconds,
      });
    t.equal(await arrived(298), 'true', `${scheme.name}: compared with the arrival`);
    t.equal(await arrived(302), 'false', `${scheme.name}: too old when it arrived`);
    t.equal(await arrived(-298), 'true', `${scheme.name}: by a clock that is ahead`);
    t.equal(await arrived(-302), 'false', `${scheme.name}: by one that is too far ahead`);
    t.equal(await arrived(302, 600), 'true', `${scheme.name}: within a tolerance of its own`);
  }
});
