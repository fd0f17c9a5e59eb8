/** The current state of an installation. Running host calls watch it and end when their capability is revoked. */
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

  /** Updates the state from the row and notifies the watchers. */
  update(plugin: InstalledPlugin): void {
    this.#plugin = plugin;
    for (const watcher of [...this.#watchers]) watcher(plugin);
  }

  /**
   * Revokes everything when the installation may no longer run (paused, uninstalled), so that draining calls have no
   * access.
   */
  withdraw(): void {
    this.update({ ...this.#plugin, granted: [] });
  }

  /** @returns a function that stops watching */
  watch(watcher: (plugin: InstalledPlugin) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}
