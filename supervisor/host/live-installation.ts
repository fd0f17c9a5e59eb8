/** The current state of an installation. Running host calls watch it and end when their capability is revoked. */
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { intersectCapabilities } from '../../sdk/contract/capabilities.ts';

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
    this.update({ ...this.#plugin, granted: [], secretUses: {} });
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

/** Null stands for every use: a version with null reads the value itself. */
function intersectSecretUses(own: SecretUses, other: SecretUses): SecretUses {
  const entries = Object.entries(own).flatMap(([name, uses]): [string, readonly string[] | null][] => {
    if (!Object.hasOwn(other, name)) return [];
    const allowed = other[name] ?? null;
    if (uses === null || allowed === null) return [[name, uses ?? allowed]];
    return [[name, uses.filter((use) => allowed.includes(use))]];
  });
  return Object.fromEntries(entries);
}
