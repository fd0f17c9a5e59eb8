/** Bounds what messages repeat of a text that its author chose. */

/** Long enough for the name and path of any real package. A name may have the length of a file. Characters. */
const QUOTED_MAX = 300;

/** Cuts a text that is too long for a message. Half of a character at the end becomes U+FFFD. */
export const cutQuoted = (text: string): string =>
  text.length > QUOTED_MAX ? `${text.slice(0, QUOTED_MAX).toWellFormed()}…` : text;
