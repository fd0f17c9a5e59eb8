/** `host.secrets`: the installation's secrets, decrypted for each call. A plugin gets a handle of those that the host uses for it. */
import type { Pool } from 'pg';
import { readSecret, type SecretKeys } from '../../db/files/secrets.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { verifySignature } from '../../sandbox-child/webhook-signatures.ts';
import { limitSecretUses } from '../../sdk/contract/capabilities.ts';
import { getOwn } from '../../sdk/contract/get-own.ts';
import type { SecretMasks } from '../records/secret-mask.ts';
import { Refusal } from './call-checks.ts';
import { HostError, type HostHandlers } from './host-call.ts';
import { httpUse, type MaskedSource, SecretHandles, WEBHOOKS_USE } from './secret-handles.ts';

type Calls = 'secrets.get' | 'secrets.verify';

/** The secrets of all installations, for the host calls that use them. */
export class Secrets {
  readonly handles = new SecretHandles();
  readonly calls: Pick<HostHandlers, Calls> = {
    'secrets.get': async ({ plugin, loaded }, { name }) => {
      // Null would mean that it is not set, and a plugin that compares it would take a genuine request for a forged one.
      if (isRevoked(name, loaded, plugin))
        throw new Refusal(
          'denied',
          `host.secrets.get: the secret ${name} is not granted any more: the plugin was paused, uninstalled or updated`,
        );
      const secret = await this.sourceOf(plugin).read(name);
      if (secret === null) return null;
      return secret.uses === null ? secret.value : this.handles.make(plugin.installationId, name);
    },
    'secrets.verify': async ({ plugin }, { scheme, handle, options, ...request }) => {
      const secret = await this.handles.open(handle, WEBHOOKS_USE, this.sourceOf(plugin));
      try {
        return await verifySignature(scheme, request, secret, options);
      } catch (error) {
        // The text names the fault of the secret, not its value.
        throw new HostError((error as Error).message);
      }
    },
  };
  readonly #pool: Pool;
  readonly #keys: SecretKeys;
  readonly #masks: SecretMasks;

  constructor(pool: Pool, keys: SecretKeys, masks: SecretMasks) {
    this.#pool = pool;
    this.#keys = keys;
    this.#masks = masks;
  }

  sourceOf({ installationId, secretUses }: InstalledPlugin): MaskedSource {
    const names = Object.keys(secretUses);
    /** How the host uses each secret of which the plugin has a handle. */
    const uses = new Map<string, readonly string[]>();
    for (const [name, declared] of Object.entries(secretUses)) if (declared !== null) uses.set(name, declared);
    return {
      installationId,
      names,
      read: async (name) => {
        const declared = getOwn(secretUses, name);
        if (declared === undefined) return null;
        const secret = await readSecret(this.#pool, this.#keys, installationId, name);
        if (secret === null) return null;
        // Masked before anything uses it: the user may have changed it since the child started.
        this.#masks.open(installationId).add(name, secret.value);
        const limited = limitSecretUses(name, declared, secret.allowed);
        // Also where only its user limits it.
        if (limited !== null) uses.set(name, limited);
        return { value: secret.value, uses: limited };
      },
      openMask: (hostname) => {
        const sent = [...uses].filter(([, some]) => some.includes(httpUse(hostname))).map(([name]) => name);
        return this.#masks.get(installationId).select(sent);
      },
    };
  }
}

/** Whether the version that a child has loaded declares a secret, or may read its value, and the installation lost that since. */
function isRevoked(name: string, loaded: InstalledPlugin, { secretUses }: InstalledPlugin): boolean {
  if (!Object.hasOwn(loaded.secretUses, name)) return false;
  if (!Object.hasOwn(secretUses, name)) return true;
  return loaded.secretUses[name] === null && secretUses[name] !== null;
}
