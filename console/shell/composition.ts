/** The key code of a key that an input method handled. */
const HANDLED = 229;

/**
 * Whether the key belongs to the composition of a character, such as a Japanese one. Safari ends the composition before the key that
 * confirms or cancels it, so only the key code of that key says so.
 */
export const isOfComposition = ({ isComposing, keyCode }: KeyboardEvent): boolean => isComposing || keyCode === HANDLED;
