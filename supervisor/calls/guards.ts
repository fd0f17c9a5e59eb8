/**
 * Identifies the required plugins of a hook, so that what has waited since it was judged is judged again by those that were not
 * required then. Compared as a value instead of times: the clocks of machines differ, and a write may wait.
 */
import { hash } from 'node:crypto';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { type AccountPlugins, listHookLinks } from '../children/account-plugins-cache.ts';

const NONE = '';
const digests = new WeakMap<readonly InstalledPlugin[], string>();

/** A digest of the hook's required plugins and their states. It differs once one of them was installed, changed or required. Empty: none is required. */
export function digestGuards(accountPlugins: AccountPlugins, hook: HookName): string {
  // The same array until the account's plugins are read again.
  const links = listHookLinks(accountPlugins, hook);
  if (links.length === 0) return NONE;
  const known = digests.get(links);
  if (known !== undefined) return known;
  const guards = links.filter(({ required }) => required).map((link) => [link.installationId, link.updatedAt]);
  const digest = guards.length === 0 ? NONE : hash('sha256', JSON.stringify(guards), 'base64url');
  digests.set(links, digest);
  return digest;
}

/**
 * Whether a required plugin may not have judged what was judged under `judgedBy`.
 *
 * @param judgedBy null: unknown, because an earlier release judged it
 * @param guards those of now
 */
export const hasNewGuard = (judgedBy: string | null, guards: string): boolean => guards !== NONE && guards !== judgedBy;
