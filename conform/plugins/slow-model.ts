/** Delay of the conformance plugin's model when the prompt is `slowly`. Longer than a link's budget. Milliseconds. */
export const SLOW_MODEL_MS = 6_000;
