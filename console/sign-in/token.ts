/** Stores the token in memory and session storage, so that it ends with the tab. */
const KEY = 'bulkhead.token';
const listeners = new Set<() => void>();
let token = sessionStorage.getItem(KEY);

export const readToken = (): string | null => token;

export function setToken(next: string | null): void {
  token = next;
  if (next === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, next);
  for (const listener of listeners) listener();
}

/** For `useSyncExternalStore`. */
export function subscribeToToken(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Reads the token of a sign-in link (`#token=…`) and removes it from the address and the history. */
export function readTokenFromAddress(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get('token');
  if (given === null) return;
  setToken(given);
  history.replaceState(null, '', location.pathname + location.search);
}
