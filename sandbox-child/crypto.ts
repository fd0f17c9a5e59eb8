/** `crypto` for plugins, loaded on first use: most plugins never sign anything. */
import type { webcrypto } from 'node:crypto';
import { freeze } from './text.ts';

const operations = [
  ...(['digest', 'sign', 'verify', 'encrypt', 'decrypt', 'importKey', 'exportKey'] as const),
  ...(['generateKey', 'deriveBits', 'deriveKey', 'wrapKey', 'unwrapKey'] as const),
] as const;

/** An object with `getRandomValues`, `randomUUID` and `subtle`; methods only, none of Node's prototypes. */
export function cryptoEndowment(): object {
  let subtle: object | null = null;
  const load = (): typeof webcrypto => process.getBuiltinModule('node:crypto').webcrypto;
  return {
    getRandomValues: (array: Uint8Array<ArrayBuffer>) => load().getRandomValues(array),
    randomUUID: (): string => load().randomUUID(),
    get subtle(): object {
      subtle ??= freeze(subtleMethods(load().subtle));
      return subtle;
    },
  };
}

function subtleMethods(from: webcrypto.SubtleCrypto): object {
  const methods: Record<string, unknown> = {};
  for (const name of operations) {
    const method = from[name] as (...values: unknown[]) => unknown;
    methods[name] = (...values: unknown[]) => Reflect.apply(method, from, values);
  }
  return methods;
}
