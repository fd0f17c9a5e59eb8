/** What the kit's model takes for “slowly”, milliseconds: longer than a link's budget. */
export const SLOW_MODEL_MS = 6_000;
