/** Signs in with the link that the operator's command printed: `#code=…`, or `#token=…` with a token. */
import { type Proof, signIn } from './sign-in-requests.ts';

let refusal: Error | null = null;

/** Why the link of this page's address was refused. Null: the address has no link, or it was accepted. */
export const readLinkRefusal = (): Error | null => refusal;

/** Signs in if the address is a sign-in link. Removes the secret from the address and the history first. */
export async function signInByLink(): Promise<void> {
  const proof = readProof(new URLSearchParams(location.hash.slice(1)));
  if (proof === null) return;
  history.replaceState(null, '', location.pathname + location.search);
  await signIn(proof).catch((error: unknown) => {
    refusal = error instanceof Error ? error : new Error('The sign-in link was refused.');
  });
}

function readProof(parameters: URLSearchParams): Proof | null {
  const code = parameters.get('code');
  if (code !== null) return { code };
  const token = parameters.get('token');
  return token === null ? null : { token };
}
