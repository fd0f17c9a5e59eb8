/** A new order of hooks takes few writes, and leaves no other order behind where some of them fail. */
import fc from 'fast-check';
import t from 'tap';
import { type Numbered, planHookNumbers } from '../../console/installations/hook-numbers.ts';

/** What the REST interface accepts. */
const NUMBER_MAX = 1_000_000;

/** As they are numbered before one is moved. */
const createInstallations = (count: number): Numbered[] =>
  Array.from({ length: count }, (_, at) => ({ id: `i${String(at).padStart(4, '0')}`, hookOrder: at + 1 }));
const move = (all: readonly Numbered[], from: number, to: number): Numbered[] =>
  all.toSpliced(from, 1).toSpliced(to, 0, ...all.slice(from, from + 1));
const write = (all: readonly Numbered[], writes: readonly Numbered[]): Numbered[] =>
  all.map(({ id, hookOrder }) => ({ id, hookOrder: writes.find((one) => one.id === id)?.hookOrder ?? hookOrder }));
/** As the service orders them. */
const sort = (all: readonly Numbered[]): Numbered[] =>
  all.toSorted((a, b) => a.hookOrder - b.hookOrder || (a.id < b.id ? -1 : 1));
const listIds = (all: readonly Numbered[]): string[] => all.map(({ id }) => id);

t.test('one write moves an installation to an end, or to a place with a free number', async (t) => {
  const all = createInstallations(100);
  const toTop = move(all, 99, 0);
  t.match(planHookNumbers(toTop), [{ id: 'i0099' }]);
  t.equal(planHookNumbers(toTop).length, 1);
  t.match(planHookNumbers(move(all, 0, 99)), [{ id: 'i0000' }]);
  const spaced = all.map(({ id, hookOrder }) => ({ id, hookOrder: 10 * hookOrder }));
  t.same(planHookNumbers(move(spaced, 99, 50)), [{ id: 'i0099', hookOrder: 505 }]);
  t.same(planHookNumbers(all), []);
});

t.test('without a free number, the fewest others get new ones, and later moves take one write', async (t) => {
  const all = createInstallations(100);
  t.equal(planHookNumbers(move(all, 50, 49)).length, 2, 'neighbors change places');
  const toMiddle = move(all, 99, 50);
  const writes = planHookNumbers(toMiddle);
  t.equal(writes.length, 49);
  const written = sort(write(all, writes));
  t.same(listIds(written), listIds(toMiddle));
  t.equal(planHookNumbers(move(written, 0, 60)).length, 1);
});

t.test('any order is reached, and after each write only what is moved is elsewhere', async () => {
  const numbers = fc.array(
    fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: -NUMBER_MAX, max: NUMBER_MAX + 5 })),
    { minLength: 1, maxLength: 25 },
  );
  fc.assert(
    fc.property(numbers, fc.nat(24), fc.nat(24), (given, from, to) => {
      const all = sort(given.map((hookOrder, at) => ({ id: `i${at}`, hookOrder })));
      const wanted = move(all, from % all.length, to % all.length);
      const writes = planHookNumbers(wanted);
      const moved = all[from % all.length]?.id;
      const listOthers = (of: readonly Numbered[]) =>
        listIds(of)
          .filter((id) => id !== moved)
          .join();
      for (let done = 0; done <= writes.length; done++)
        if (listOthers(sort(write(all, writes.slice(0, done)))) !== listOthers(all)) return false;
      const isInRange = writes.every(
        ({ hookOrder }) => Number.isInteger(hookOrder) && Math.abs(hookOrder) <= NUMBER_MAX,
      );
      return isInRange && listIds(sort(write(all, writes))).join() === listIds(wanted).join();
    }),
  );
});
