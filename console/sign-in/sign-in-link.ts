/**
 * Signs in with the link that the operator's command printed: `#code=…`. A token is not accepted: it can be used again, so any page or
 * message could sign its readers in to the account of its author.
 */
import { notifications } from '@mantine/notifications';
import { readBody, rest } from '../rest/client.ts';
import { getErrorMessage, Problem, UnreachableError } from '../rest/problem.ts';
import { fetchAsConsole } from '../rest/user-fetch.ts';
import { signIn } from './sign-in-requests.ts';

const REFUSAL = 'sign-in-link-refused';
const TOKEN_REFUSAL =
  'A link with a token does not sign in, because anybody can make one for their own account. ' +
  'Ask the operator for a link with a code: “npm run -s token -- <user> --link” prints one.';
const NO_RESPONSE =
  'Check that the service is running and that you are online, then open the link again. ' +
  'If it has been used, ask the operator for a new one.';

/** A link that was opened in a browser that is signed in. Its code is not used yet, and only using it would name its account. */
export interface WaitingLink {
  readonly code: string;
  /** The account that is signed in. */
  readonly current: string;
}

/**
 * Signs in if the address is a sign-in link and this browser is not signed in. Removes the secret from the address and the history first.
 *
 * @returns the link if the user must confirm it, otherwise null
 */
export async function openSignInLink(): Promise<WaitingLink | null> {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const code = parameters.get('code');
  if (code === null && !parameters.has('token')) return null;
  history.replaceState(null, '', location.pathname + location.search);
  notifications.hide(REFUSAL);
  try {
    if (code === null) throw new Error(TOKEN_REFUSAL);
    const current = await readCurrentAccount();
    if (current !== null) return { code, current };
    await signIn({ code });
  } catch (error) {
    const content =
      error instanceof UnreachableError
        ? { title: 'The service did not respond to the sign-in link', message: NO_RESPONSE }
        : { title: 'The sign-in link was refused', message: getErrorMessage(error) };
    notifications.show({ id: REFUSAL, color: 'red', autoClose: false, ...content });
  }
  return null;
}

/** Returns the name of the account that this browser is signed in to. Null: none. */
async function readCurrentAccount(): Promise<string | null> {
  try {
    return (await readBody(rest.GET('/me', { fetch: fetchAsConsole }))).name;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.code === 'unauthenticated') return null;
    if (error.code === 'account_suspended') return 'a suspended account';
    throw error;
  }
}
