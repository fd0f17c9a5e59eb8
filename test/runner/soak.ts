/**
 * The two sizes of a test: the quick one of every `npm test`, and the long one of `npm test -- --soak`.
 *
 * `--soak` runs the test files that import this one and those that only a soak run has (schedule.ts), and no others.
 */
import type { Extra, Test } from 'tap';

/** Set by `npm test -- --soak`. */
export const SOAK_VARIABLE = 'BULKHEAD_TEST_SOAK';
/** Set by `npm test -- --seed N`. */
export const SEED_VARIABLE = 'BULKHEAD_TEST_SEED';
/** The quick suite makes the same random choices in every run. */
const QUICK_SEED = 20_260_101;

/** The seed from which every random choice of a test is derived. */
export const seed: number = Number(process.env[SEED_VARIABLE] ?? QUICK_SEED);

/** Whether this run does the long versions. */
export const isSoak = (): boolean => process.env[SOAK_VARIABLE] === '1';

/** How much of something this run does. */
export function amount<T>(sizes: { readonly quick: T; readonly soak: T }): T {
  return isSoak() ? sizes.soak : sizes.quick;
}

type Work = (t: Test) => Promise<void>;
type Options = Pick<Extra, 'skip'>;

/** Defines a test that only a soak run has: a variation of one that every run has. @returns when it has run */
export async function soakTest(
  t: Pick<Test, 'test'>,
  title: string,
  ...rest: [work: Work] | [options: Options, work: Work]
): Promise<void> {
  const [options, work] = rest.length === 1 ? [{}, rest[0]] : rest;
  if (isSoak()) await t.test(title, options, work);
}

/** The cases of a record that this run has: a quick one those with the names. */
export function listCases<T>(cases: Readonly<Record<string, T>>, ...quick: readonly string[]): [name: string, T][] {
  return Object.entries(cases).filter(([name]) => isSoak() || quick.includes(name));
}
