/** What the demo holds the service to: plain comparisons that say what was expected. */

/** Settings and log lines travel through the database; they are asked for again until then. */
const PATIENCE_MS = 10_000;
const PAUSE_MS = 50;

/** Fails with what was expected and what came. */
export function expect(holds: boolean, expected: string, found: unknown): asserts holds {
  if (holds) return;
  throw new Error(`expected ${expected}, got ${typeof found === 'string' ? `"${found}"` : JSON.stringify(found)}`);
}

/** Asks until the answer holds, and fails with the last one if it never does. */
export async function eventually<Answer>(
  ask: () => Promise<Answer>,
  holds: (answer: Answer) => boolean,
  expected: string,
): Promise<Answer> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await ask();
    if (holds(answer)) return answer;
    if (Date.now() > end) expect(false, `${expected} within ${PATIENCE_MS / 1000} s`, answer);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** One line of a text, short enough for a terminal. */
export function oneLine(text: string, length = 100): string {
  const flat = text.replaceAll(/\s+/g, ' ');
  return flat.length > length ? `${flat.slice(0, length - 1)}…` : flat;
}
