/** An installation as it stands now. Host calls under way watch it: what is taken from the installation ends them. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';

export class LiveInstallation {
  #plugin: InstalledPlugin;
  readonly #watchers = new Set<(plugin: InstalledPlugin) => void>();

  constructor(plugin: InstalledPlugin) {
    this.#plugin = plugin;
  }

  get plugin(): InstalledPlugin {
    return this.#plugin;
  }

  /** Takes over what the row says now, and tells those who watch. */
  update(plugin: InstalledPlugin): void {
    this.#plugin = plugin;
    for (const watcher of [...this.#watchers]) watcher(plugin);
  }

  /** It may not run any more (paused, uninstalled): what still drains reaches nothing. */
  withdraw(): void {
    this.update({ ...this.#plugin, granted: [] });
  }

  /** @returns a function that ends the watching */
  watch(watcher: (plugin: InstalledPlugin) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}
