/** Decides whether a changed installation needs another child, or new configuration for the running one. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';

/** Identifies the code that a child runs. */
export const versionKey = (plugin: InstalledPlugin): string => `${plugin.versionId} ${plugin.bundleSha256}`;
/** Identifies the code and the kind of child. A change of this key requires another child; other changes do not. */
export const startKey = (plugin: InstalledPlugin, inspected: boolean): string =>
  inspected ? `${versionKey(plugin)} inspected` : versionKey(plugin);

/** Whether a running child can keep its configuration. */
export const hasSameConfiguration = (a: InstalledPlugin, b: InstalledPlugin): boolean =>
  JSON.stringify([a.settings, a.granted]) === JSON.stringify([b.settings, b.granted]);
