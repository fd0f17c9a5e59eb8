/** Remembers in this browser which update the user declined, one version per installation. */
import { useLocalStorage } from '@mantine/hooks';
import { useInstallations } from '../rest/installations.ts';

const KEY = 'bulkhead.declined';
/** Installations that are remembered; the oldest are dropped. */
const REMEMBERED_MAX = 200;

const NONE: Readonly<Record<string, string>> = {};

const useDeclined = () => useLocalStorage({ key: KEY, defaultValue: NONE, getInitialValueInEffect: false });

/** Returns the slugs of the plugins whose update waits for the user. */
export function useWaitingUpdates(): ReadonlySet<string> {
  const [declined] = useDeclined();
  const found = useInstallations({ isFollowed: false });
  const waiting = (found.data ?? []).filter(
    ({ id, pendingUpdate }) => pendingUpdate !== null && pendingUpdate.versionId !== declined[id],
  );
  return new Set(waiting.map(({ slug }) => slug));
}

/** @returns the declined version, and a function that sets it or, with null, clears it */
export function useDeclinedUpdate(installationId: string) {
  const [declined, setDeclined] = useDeclined();
  const decline = (versionId: string | null) => {
    const others = Object.entries(declined).filter(([id]) => id !== installationId);
    const own: [string, string][] = versionId === null ? [] : [[installationId, versionId]];
    setDeclined(Object.fromEntries([...others, ...own].slice(-REMEMBERED_MAX)));
  };
  return { declined: declined[installationId] ?? null, decline };
}
