/** Waits for what another process or the database will show. */

/** On a busy machine, what takes a second may take a minute, and a start waits up to 30 s for the processes of a killed one. Milliseconds. */
const PATIENCE_MS = 90_000;

/** Between two looks, milliseconds: a tenth of the time waited so far, because most looks are a query. */
const LOOK_MS = { min: 20, max: 200 };

type Found<T> = T | null | undefined | false;

/** Repeats a look until it answers something, at most for `ms`. */
export async function eventually<T>(look: () => Promise<Found<T>> | Found<T>, ms = PATIENCE_MS): Promise<T> {
  const begun = Date.now();
  for (;;) {
    const found = await look();
    if (found) return found;
    const waited = Date.now() - begun;
    if (waited > ms) throw new Error('it did not happen in time');
    await new Promise((resolve) => setTimeout(resolve, Math.min(LOOK_MS.max, Math.max(LOOK_MS.min, waited / 10))));
  }
}
