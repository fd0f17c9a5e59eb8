/** Compares installations: whether a change requires another child, or new configuration for the running one. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';

/** A change of this key requires another child. Everything else is configured while the child runs. */
export const versionKey = (plugin: InstalledPlugin): string => `${plugin.versionId} ${plugin.bundleSha256}`;
/** The same, with the kind of child. */
export const startKey = (plugin: InstalledPlugin, inspected: boolean): string =>
  inspected ? `${versionKey(plugin)} inspected` : versionKey(plugin);

/** Whether a running child needs no new configuration. */
export const sameConfiguration = (a: InstalledPlugin, b: InstalledPlugin): boolean =>
  JSON.stringify([a.settings, a.granted]) === JSON.stringify([b.settings, b.granted]);
