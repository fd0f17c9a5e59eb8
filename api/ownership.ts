/** Who may see and change which plugin. What a caller may not know of is not there. */
import type { Plugin } from '../db/plugins.ts';
import { Problem } from '../sdk/errors.ts';
import type { Caller } from './services.ts';

/**
 * The plugin, when the caller owns it.
 *
 * @param access `read`: operators may too
 * @throws Problem `not_found`, or `not_owner` for another account's plugin that the catalog shows
 */
export function requireOwned(plugin: Plugin | null, caller: Caller, access: 'read' | 'change' = 'change'): Plugin {
  if (!plugin) throw unknownPlugin();
  if (plugin.ownerId === caller.id || (access === 'read' && caller.operator)) return plugin;
  if (plugin.visibility !== 'listed') throw unknownPlugin();
  throw new Problem('not_owner', `The plugin “${plugin.slug}” belongs to another account; only its owner may do this.`);
}

/**
 * The plugin, when the caller may install it or read its catalog entry.
 *
 * @param installed the caller has it installed, and so keeps seeing it after it was delisted
 */
export function requireVisible(plugin: Plugin | null, caller: Caller, installed = false): Plugin {
  if (plugin && (plugin.visibility === 'listed' || plugin.ownerId === caller.id || installed)) return plugin;
  throw unknownPlugin();
}

const unknownPlugin = () => new Problem('not_found', 'There is no such plugin, or it is not yours to see.');
