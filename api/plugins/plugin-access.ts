/** Decides which accounts may see and change a plugin. A plugin that the caller may not see answers `not_found`. */
import type { Plugin } from '../../db/catalog/plugins.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Caller } from '../../service/identity/caller.ts';

/**
 * @param access `read`: operators may read it, too
 * @throws Problem `not_found`, or `not_owner` for a listed plugin of another account
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
 * Returns the plugin if the caller may install it or read its catalog entry. A blocked plugin is visible to its owner
 * and to its users, who see the reason.
 *
 * @param installed the caller has installed it, and so sees it even after it was delisted
 * @param access `read`: operators see all plugins
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

/** @throws Problem `plugin_blocked` with the operator's reason, for a blocked plugin that is visible to the caller */
export function requireNotBlocked(plugin: Plugin | null, caller: Caller): void {
  if (!plugin || plugin.blockedReason === null) return;
  if (plugin.visibility !== 'listed' && plugin.ownerId !== caller.id) return;
  throw new Problem('plugin_blocked', `The operator blocked “${plugin.slug}”: ${plugin.blockedReason}`);
}

const unknownPlugin = () => new Problem('not_found', 'Not found: the plugin does not exist, or you may not see it.');
