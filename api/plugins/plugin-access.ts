/** Who may see and change which plugin. What a caller may not know of is not there. */
import type { Plugin } from '../../db/catalog/plugins.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';

/**
 * The plugin, when the caller owns it.
 *
 * @param access `read`: operators may too
 * @throws Problem `not_found`, or `not_owner` for another account's plugin that the catalog shows
 */
export function requireOwnedPlugin(
  plugin: Plugin | null,
  caller: Caller,
  access: 'read' | 'change' = 'change',
): Plugin {
  if (!plugin) throw unknownPlugin();
  if (plugin.ownerId === caller.id || (access === 'read' && caller.operator)) return plugin;
  if (plugin.visibility !== 'listed') throw unknownPlugin();
  throw new Problem('not_owner', `The plugin “${plugin.slug}” belongs to another account; only its owner may do this.`);
}

/**
 * The plugin, when the caller may install it or read its catalog entry. A blocked one is there for its owner and for
 * those who have it, who are told why.
 *
 * @param installed the caller has it installed, and so keeps seeing it after it was delisted
 * @param access `read`: operators see all
 */
export function requireVisiblePlugin(
  plugin: Plugin | null,
  caller: Caller,
  { installed = false, access = 'change' }: { installed?: boolean; access?: 'read' | 'change' } = {},
): Plugin {
  if (!plugin) throw unknownPlugin();
  const isPublic = plugin.visibility === 'listed' && plugin.blockedReason === null;
  const isTheirs = plugin.ownerId === caller.id || installed || (access === 'read' && caller.operator);
  if (isPublic || isTheirs) return plugin;
  throw unknownPlugin();
}

/** @throws Problem `plugin_blocked` with the operator's reason, where a plugin that was to be seen is blocked */
export function requireNotBlocked(plugin: Plugin | null, caller: Caller): void {
  if (!plugin || plugin.blockedReason === null) return;
  if (plugin.visibility !== 'listed' && plugin.ownerId !== caller.id) return;
  throw new Problem('plugin_blocked', `The operator blocked “${plugin.slug}”: ${plugin.blockedReason}`);
}

const unknownPlugin = () => new Problem('not_found', 'There is no such plugin, or it is not yours to see.');
