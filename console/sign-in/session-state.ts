/** Whether this browser is signed in, as far as the page knows. The cookie itself cannot be read here. */

/**
 * `none`: no account is signed in. `ended`: the session ended while its user was on a page, which stays as it is. `replaced`: this
 * browser was signed in to another account than that of the page, whose requests wait: they would be sent as the other account.
 */
type SessionState = 'unknown' | 'active' | 'ended' | 'replaced' | 'none';

let state: SessionState = 'unknown';
/** Number of sign-ins. The answer to a request that was sent before the latest one says nothing about the current session. */
let signIns = 0;
const listeners = new Set<() => void>();

export const readSessionState = (): SessionState => state;
export const countSignIns = (): number => signIns;

/** For `useSyncExternalStore`. */
export function subscribeToSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function change(next: SessionState): void {
  if (state === next) return;
  state = next;
  for (const listener of [...listeners]) listener();
}

/** The service accepted a request. */
export function recordAcceptance(): void {
  if (state === 'unknown') change('active');
}

/** The service refused a request. @param signInsThen sign-ins when it was sent */
export function recordRefusal(signInsThen: number): void {
  // The end of the other account's session does not bring back that of the page.
  if (signInsThen !== signIns || state === 'replaced') return;
  change(state === 'active' || state === 'ended' ? 'ended' : 'none');
}

export function recordSignIn(): void {
  signIns += 1;
  change('active');
}

/** Another account than that of the page signed in. */
export function recordReplacement(): void {
  if (state === 'active' || state === 'ended') change('replaced');
}

/** The user signed out on this page, which then shows nothing of the account. */
export const recordSignOut = (): void => change('none');

/** Waits while another account than that of the page is signed in. @throws when the signal is aborted */
export async function waitForOwnSession(signal: AbortSignal): Promise<void> {
  if (state === 'replaced') await waitForSignIn(signal);
}

/** Waits until somebody is signed in. @throws when the signal is aborted */
export function waitForSignIn(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const check = () => {
      if (state !== 'active' && !signal.aborted) return;
      stop();
      signal.removeEventListener('abort', check);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    };
    const stop = subscribeToSession(check);
    signal.addEventListener('abort', check);
    check();
  });
}
