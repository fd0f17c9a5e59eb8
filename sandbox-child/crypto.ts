/** `crypto` for plugins. Loaded on first use, because most plugins do not need it. */
import type { webcrypto } from 'node:crypto';
import { replaceNodeExceptions } from './dom-exception.ts';
import { hardenOverridable } from './harden.ts';
import { freeze, INSPECT } from './text.ts';

const operations = [
  ...(['digest', 'sign', 'verify', 'encrypt', 'decrypt', 'importKey', 'exportKey'] as const),
  ...(['generateKey', 'deriveBits', 'deriveKey', 'wrapKey', 'unwrapKey'] as const),
] as const;

/** Calls of `subtle` that have not settled. Node runs them in threads that `process.getActiveResourcesInfo()` does not list. */
let pending = 0;
export const countPendingSubtle = (): number => pending;

/** Creates `getRandomValues`, `randomUUID` and `subtle` as plain functions, without Node's prototypes. */
export function createCrypto(): object {
  let subtle: object | null = null;
  const load = (): typeof webcrypto => process.getBuiltinModule('node:crypto').webcrypto;
  return {
    getRandomValues: (array: Uint8Array<ArrayBuffer>) => replaceNodeExceptions(() => load().getRandomValues(array)),
    randomUUID: (): string => load().randomUUID(),
    get subtle(): object {
      subtle ??= freeze(wrapSubtle(load()));
      return subtle;
    },
  };
}

function wrapSubtle({ subtle }: typeof webcrypto): object {
  const { isCryptoKey } = process.getBuiltinModule('node:util').types;
  const methods: Record<string, unknown> = {};
  for (const name of operations) {
    const method = subtle[name] as (...values: unknown[]) => Promise<unknown>;
    methods[name] = async (...values: unknown[]): Promise<unknown> => {
      pending += 1;
      try {
        const result = await Reflect.apply(method, subtle, values);
        // A key, or an object with a pair of keys.
        for (const made of [result, ...Object.values(Object(result))]) if (isCryptoKey(made)) hardenPrototypes(made);
        return result;
      } catch (error) {
        return replaceNodeExceptions(() => {
          throw error;
        });
      } finally {
        pending -= 1;
      }
    };
  }
  return methods;
}

/** All keys share Node's prototypes, which a plugin can reach through a key: freeze them. */
function hardenPrototypes(key: object): void {
  const prototype: object = Object.getPrototypeOf(key);
  if (Object.isFrozen(prototype)) return;
  Reflect.deleteProperty(Object.getPrototypeOf(prototype), INSPECT);
  hardenOverridable(prototype);
}
