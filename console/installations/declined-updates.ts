/** Remembers in this browser which update the user declined, one version per installation. */
import { useLocalStorage } from '@mantine/hooks';

const KEY = 'bulkhead.declined';
/** Installations that are remembered; the oldest are dropped. */
const REMEMBERED_MAX = 200;

/** @returns the declined version, and a function that sets it or, with null, clears it */
export function useDeclinedUpdate(installationId: string) {
  const [declined, setDeclined] = useLocalStorage<Readonly<Record<string, string>>>({
    key: KEY,
    defaultValue: {},
    getInitialValueInEffect: false,
  });
  const decline = (versionId: string | null) => {
    const others = Object.entries(declined).filter(([id]) => id !== installationId);
    const own: [string, string][] = versionId === null ? [] : [[installationId, versionId]];
    setDeclined(Object.fromEntries([...others, ...own].slice(-REMEMBERED_MAX)));
  };
  return { declined: declined[installationId] ?? null, decline };
}
