/** The assertions of the demo, with readable errors. */

/** Time for plugins to start, and for settings and log lines to travel through the database. On a busy machine, each may take seconds. */
const PATIENCE_MS = 30_000;
const PAUSE_MS = 50;

/** Fails with the expected and the actual value. */
export function expect(holds: boolean, expected: string, found: unknown): asserts holds {
  if (holds) return;
  throw new Error(`expected ${expected}, got ${typeof found === 'string' ? `"${found}"` : JSON.stringify(found)}`);
}

/** Repeats a request until the result matches, and fails with the last one. */
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

/** Shortens a text to one terminal line. */
export function oneLine(text: string, length = 100): string {
  const flat = text.replaceAll(/\s+/g, ' ');
  return flat.length > length ? `${flat.slice(0, length - 1)}…` : flat;
}
