/** Signs in and out. All tabs of this browser share the cookie, so each tells the others. */

import { notifications } from '@mantine/notifications';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { Problem } from '../rest/problem.ts';
import { queryClient } from '../rest/query-client.ts';
import { fetchAsConsole } from '../rest/user-fetch.ts';
import {
  countSignIns,
  readSessionState,
  recordRefusal,
  recordReplacement,
  recordSignIn,
  recordSignOut,
} from './session-state.ts';

type Account = components['schemas']['Account'];
/** The credential that is exchanged for the cookie. */
type Proof = { readonly token: string } | { readonly code: string };
interface SessionNotice {
  /** Null: signed out. */
  readonly accountId: string | null;
}

const tabs = new BroadcastChannel('bulkhead.session');
tabs.onmessage = ({ data }: MessageEvent<SessionNotice>) => {
  if (data.accountId === null) recordRefusal(countSignIns());
  // A page that is loading has nothing typed yet, and the answers on their way may be about another account.
  else if (readAccountId() === null && readSessionState() !== 'none') location.reload();
  else continueAs(data.accountId);
};

/** @throws Problem if the service does not accept the proof */
export async function signIn(proof: Proof): Promise<void> {
  continueAs(await exchangeProof(proof));
}

/**
 * Signs in for a document that is loaded next: this one may be of another account.
 *
 * @returns the id of the account
 * @throws Problem if the service does not accept the proof
 */
export async function exchangeProof(proof: Proof): Promise<string> {
  const { id } = await readBody<Account>(rest.POST('/sign-in', { body: proof, fetch: fetchAsConsole }));
  tabs.postMessage({ accountId: id } satisfies SessionNotice);
  return id;
}

/** The account that signed out on this page. Its requests may still wait. */
let signedOutId: string | null = null;
const readAccountId = (): string | null => queryClient.getQueryData<Account>(['me'])?.id ?? signedOutId;

/** Requests of the page must not be sent as another account: then the page reloads. */
function continueAs(accountId: string): void {
  const known = readAccountId();
  if (known !== null && known !== accountId) {
    // On a page with typed text, the browser asks first, and the user may stay.
    recordReplacement();
    location.reload();
  } else recordSignIn();
}

/** @param everywhere ends the sessions of all browsers. If that of this browser has ended, the user signs in again first */
export async function signOut(everywhere: boolean): Promise<void> {
  if (everywhere) await rest.POST('/sign-out', { body: { everywhere } });
  else
    await rest.POST('/sign-out', { body: { everywhere }, fetch: fetchAsConsole }).catch((error: unknown) => {
      // A session that has ended needs no end.
      if (!(error instanceof Problem && error.code === 'unauthenticated')) throw error;
    });
  tabs.postMessage({ accountId: null } satisfies SessionNotice);
  signedOutId = readAccountId();
  recordSignOut();
  // They may name plugins of the account.
  notifications.clean();
  queryClient.clear();
}
