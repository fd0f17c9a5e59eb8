/** What a host call under way needs of its installation's grants: the call ends when that goes. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { isGranted } from '../../sdk/contract/capabilities.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import type { HostScope } from './host-call.ts';
import type { LiveInstallation } from './live-installation.ts';

export interface HeldGrant extends Pick<HostScope, 'granted' | 'needs'> {
  readonly gone: AbortSignal;
  /** The call is over. */
  release(): void;
}

/** Holds what the row needs, until the handler narrows it. */
export function holdGrant(row: HostRow, installation: LiveInstallation): HeldGrant {
  const gone = new AbortController();
  let isHeld = (granted: readonly string[]): boolean => isGranted(row, granted);
  const endIfNotHeld = ({ granted }: InstalledPlugin): void => {
    if (!isHeld(granted)) gone.abort();
  };
  return {
    gone: gone.signal,
    granted: () => installation.plugin.granted,
    needs: (narrower) => {
      isHeld = narrower;
      endIfNotHeld(installation.plugin);
    },
    release: installation.watch(endIfNotHeld),
  };
}
