/** Ends a running host call when the installation loses a capability that the call needs. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { isGranted } from '../../sdk/contract/capabilities.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import type { HostScope } from './host-call.ts';
import type { LiveInstallation } from './live-installation.ts';

export interface HeldGrant extends Pick<HostScope, 'granted' | 'needs'> {
  readonly gone: AbortSignal;
  /** Call it when the host call has ended. */
  release(): void;
}

/** Watches the capability of the call's row, until the handler requires a narrower one. */
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
