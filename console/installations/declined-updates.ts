/** Updates that the user does not want, one version an installation: the next version asks again. Kept in this browser. */
import { useLocalStorage } from '@mantine/hooks';

const KEY = 'bulkhead.declined';
/** Installations remembered at most: the first ones are forgotten, and ask again. */
const REMEMBERED_MAX = 200;

/** @returns the version that was declined, and how to decline one, or with null none */
export function useDeclinedUpdate(installationId: string) {
  const [declined, setDeclined] = useLocalStorage<Readonly<Record<string, string>>>({
    ...{ key: KEY, defaultValue: {}, getInitialValueInEffect: false },
  });
  const decline = (versionId: string | null) => {
    const others = Object.entries(declined).filter(([id]) => id !== installationId);
    const own: [string, string][] = versionId === null ? [] : [[installationId, versionId]];
    setDeclined(Object.fromEntries([...others, ...own].slice(-REMEMBERED_MAX)));
  };
  return { declined: declined[installationId] ?? null, decline };
}
