/** The current state of an installation. Running host calls watch it and end when their capability is revoked. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { intersectCapabilities, intersectUses } from '../../sdk/contract/capabilities.ts';

export class LiveInstallation {
  #plugin: InstalledPlugin;
  #isWithdrawn = false;
  readonly #watchers = new Set<(plugin: InstalledPlugin) => void>();

  constructor(plugin: InstalledPlugin) {
    this.#plugin = plugin;
  }

  get plugin(): InstalledPlugin {
    return this.#plugin;
  }

  get isWithdrawn(): boolean {
    return this.#isWithdrawn;
  }

  /** Updates the state from the row and notifies the watchers. After `withdraw`, nothing is granted again. */
  update(plugin: InstalledPlugin): void {
    // The row may have been read, or the update that moves to its version recorded, just before.
    this.#plugin = this.#isWithdrawn ? { ...plugin, granted: [], secretUses: {} } : plugin;
    for (const watcher of [...this.#watchers]) watcher(this.#plugin);
  }

  /**
   * Revokes everything when the installation may no longer run (paused, uninstalled), so that draining calls have no
   * access.
   */
  withdraw(): void {
    this.#isWithdrawn = true;
    this.update(this.#plugin);
  }

  /** Revokes what the version that replaced this one does not have: calls of this one may still run while it drains. */
  restrictTo({ granted, secretUses }: InstalledPlugin): void {
    this.update({
      ...this.#plugin,
      granted: intersectCapabilities(this.#plugin.granted, granted),
      secretUses: intersectSecretUses(this.#plugin.secretUses, secretUses),
    });
  }

  /** @returns a function that stops watching */
  watch(watcher: (plugin: InstalledPlugin) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}

type SecretUses = InstalledPlugin['secretUses'];

function intersectSecretUses(own: SecretUses, other: SecretUses): SecretUses {
  const shared = Object.entries(own).filter(([name]) => Object.hasOwn(other, name));
  return Object.fromEntries(shared.map(([name, uses]) => [name, intersectUses(uses, other[name] ?? null)]));
}
