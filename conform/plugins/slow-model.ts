/** The delay of the kit's model for “slowly”: longer than a link's budget. Milliseconds. */
export const SLOW_MODEL_MS = 6_000;
