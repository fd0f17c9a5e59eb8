/** Signs in with the link that the operator's command printed: `#code=…`, or `#token=…` with a token. */
import { notifications } from '@mantine/notifications';
import { getErrorMessage } from '../rest/problem.ts';
import { type Proof, signIn } from './sign-in-requests.ts';

const REFUSAL = 'sign-in-link-refused';

/** Signs in if the address is a sign-in link. Removes the secret from the address and the history first. */
export async function signInByLink(): Promise<void> {
  const proof = readProof(new URLSearchParams(location.hash.slice(1)));
  if (proof === null) return;
  history.replaceState(null, '', location.pathname + location.search);
  notifications.hide(REFUSAL);
  await signIn(proof).catch((error: unknown) => {
    const title = 'The sign-in link was refused';
    notifications.show({ id: REFUSAL, color: 'red', title, message: getErrorMessage(error), autoClose: false });
  });
}

function readProof(parameters: URLSearchParams): Proof | null {
  const code = parameters.get('code');
  if (code !== null) return { code };
  const token = parameters.get('token');
  return token === null ? null : { token };
}
