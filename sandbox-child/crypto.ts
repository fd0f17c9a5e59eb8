/** `crypto` for plugins. Loaded on first use, because most plugins do not need it. */
import type { webcrypto } from 'node:crypto';
import { freeze } from './text.ts';

const operations = [
  ...(['digest', 'sign', 'verify', 'encrypt', 'decrypt', 'importKey', 'exportKey'] as const),
  ...(['generateKey', 'deriveBits', 'deriveKey', 'wrapKey', 'unwrapKey'] as const),
] as const;

/** Creates `getRandomValues`, `randomUUID` and `subtle` as plain functions, without Node's prototypes. */
export function createCrypto(): object {
  let subtle: object | null = null;
  const load = (): typeof webcrypto => process.getBuiltinModule('node:crypto').webcrypto;
  return {
    getRandomValues: (array: Uint8Array<ArrayBuffer>) => load().getRandomValues(array),
    randomUUID: (): string => load().randomUUID(),
    get subtle(): object {
      subtle ??= freeze(wrapSubtle(load().subtle));
      return subtle;
    },
  };
}

function wrapSubtle(from: webcrypto.SubtleCrypto): object {
  const methods: Record<string, unknown> = {};
  for (const name of operations) {
    const method = from[name] as (...values: unknown[]) => unknown;
    methods[name] = (...values: unknown[]) => Reflect.apply(method, from, values);
  }
  return methods;
}
