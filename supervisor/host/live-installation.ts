/** An installation as it stands now. Host calls under way watch it: what is taken from the installation ends them. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';

export class LiveInstallation {
  #entry: InstalledPlugin;
  readonly #watchers = new Set<(entry: InstalledPlugin) => void>();

  constructor(entry: InstalledPlugin) {
    this.#entry = entry;
  }

  get entry(): InstalledPlugin {
    return this.#entry;
  }

  /** Takes over what the row says now, and tells those who watch. */
  update(entry: InstalledPlugin): void {
    this.#entry = entry;
    for (const watcher of [...this.#watchers]) watcher(entry);
  }

  /** It may not run any more (paused, uninstalled): what still drains reaches nothing. */
  withdraw(): void {
    this.update({ ...this.#entry, granted: [] });
  }

  /** @returns a function that ends the watching */
  watch(watcher: (entry: InstalledPlugin) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}
