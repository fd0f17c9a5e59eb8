/**
 * Runs cases of Test262 in the realm of a plugin, built like the program of a child. All cases share the intrinsics, which are
 * frozen; the global object is put back before each.
 */
import { createEndowments } from '../../../sandbox-child/endowments.ts';
import { lockRealm } from '../../../sandbox-child/realm.ts';
import { serveCases } from './serve-cases.ts';

const realm = lockRealm();
const endowments = realm.harden(
  createEndowments(
    () => undefined,
    () => undefined,
    () => Promise.reject(new Error('there is no host')),
  ),
);
let globalObject: object = {};
realm.evaluate(
  'takeGlobal(globalThis);',
  'start.js',
  { ...endowments, takeGlobal: (value: object) => (globalObject = value) },
  {},
);
const original = Object.getOwnPropertyDescriptors(globalObject) as Record<PropertyKey, PropertyDescriptor>;

const evaluate = (source: string, globals: Readonly<Record<string, unknown>>): void => {
  for (const key of Reflect.ownKeys(globalObject)) {
    if (!Object.hasOwn(original, key)) Reflect.deleteProperty(globalObject, key);
  }
  for (const key of Reflect.ownKeys(original)) Reflect.defineProperty(globalObject, key, original[key] ?? {});
  realm.evaluate(source, 'case.js', globals, {});
};

serveCases(evaluate, () => !Object.isExtensible(globalObject));
