/** What of an installation decides about its child: when another must be started, and when the running one be told. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';

/** What makes a restart necessary; everything else is configured while it runs. */
export const versionKey = (plugin: InstalledPlugin): string => `${plugin.versionId} ${plugin.bundleSha256}`;
/** The same, with the kind of child it runs in. */
export const startKey = (plugin: InstalledPlugin, inspected: boolean): string =>
  inspected ? `${versionKey(plugin)} inspected` : versionKey(plugin);

/** Whether a running child needs to be told nothing. */
export const sameConfiguration = (a: InstalledPlugin, b: InstalledPlugin): boolean =>
  JSON.stringify([a.settings, a.granted]) === JSON.stringify([b.settings, b.granted]);
