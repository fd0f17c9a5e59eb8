/**
 * Identifies the required plugins of a hook, so that what has waited since it was judged is judged again by those that were not
 * required then. Compared as a value instead of times: the clocks of machines differ, and a write may wait.
 */
import { hash } from 'node:crypto';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import type { HookName } from '../../sdk/contract/protocol.ts';
import { type AccountPlugins, listHookLinks } from '../children/account-plugins-cache.ts';

const NONE = '';
const SEPARATOR = ' ';
/** Enough that two states of an account have none in common by chance. */
const DIGEST_CHARS = 16;
const digests = new WeakMap<readonly InstalledPlugin[], string>();

/** A digest of each required plugin of the hook and its state, which differs once it was changed or required. Empty: none is required. */
export function digestGuards(accountPlugins: AccountPlugins, hook: HookName): string {
  // The same array until the account's plugins are read again.
  const links = listHookLinks(accountPlugins, hook);
  if (links.length === 0) return NONE;
  const known = digests.get(links);
  if (known !== undefined) return known;
  const guards = links
    .filter(({ required }) => required)
    .map(digestOf)
    .join(SEPARATOR);
  digests.set(links, guards);
  return guards;
}

const digestOf = ({ installationId, updatedAt }: InstalledPlugin): string =>
  hash('sha256', `${installationId} ${updatedAt}`, 'base64url').slice(0, DIGEST_CHARS);

/**
 * Whether a required plugin may not have judged what was judged under `judgedBy`.
 *
 * @param judgedBy null: unknown, because an earlier release judged it
 * @param guards those of now
 */
export function hasNewGuard(judgedBy: string | null, guards: string): boolean {
  if (guards === NONE || guards === judgedBy) return false;
  const known = new Set(judgedBy?.split(SEPARATOR));
  return guards.split(SEPARATOR).some((guard) => !known.has(guard));
}
