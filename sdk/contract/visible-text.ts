/**
 * One rule for text of authors that people and models read: it holds nothing that cannot be seen, and nothing that changes
 * the order in which the rest is shown. Such characters hide instructions from a reviewer, or make one name look like
 * another.
 */

/**
 * Control characters, private use, what Unicode lets programs ignore (zero width, direction, tags) and line separators. Members of
 * a character class.
 */
const HIDDEN = String.raw`\p{Cc}\p{Cs}\p{Co}\p{Default_Ignorable_Code_Point}\u2028\u2029\uFFF9-\uFFFB`;
/** No check for white space finds it, so that it would make a name that looks empty. Longer texts may hold drawings of Braille. */
const BRAILLE_BLANK = String.raw`\u2800`;

/** Scripts whose spelling needs joiners. */
const JOINED_SCRIPTS = [
  ...['Arabic', 'Bengali', 'Devanagari', 'Gujarati', 'Gurmukhi', 'Kannada', 'Khmer', 'Malayalam', 'Mongolian'],
  ...['Myanmar', 'Nko', 'Oriya', 'Sinhala', 'Syriac', 'Tamil', 'Telugu', 'Tibetan'],
];

/**
 * Has characters of `JOINED_SCRIPTS` that do not join: marks and punctuation shared with Latin or Chinese, where a joiner
 * after them shows nothing, and characters that are hidden themselves.
 */
const NOT_JOINED = String.raw`\p{Script_Extensions=Latin}\p{Script_Extensions=Han}\p{Default_Ignorable_Code_Point}`;

/** Where a character of `HIDDEN` belongs to a visible one before it. */
const ALLOWED = [
  // The emoji of several people, a flag in colours, and an emoji shown as text.
  String.raw`\p{Extended_Pictographic}\p{Emoji_Modifier}?\uFE0F?\u200D(?=\p{Extended_Pictographic})`,
  // A digit looks the same with a variation selector, except as the start of a keycap.
  String.raw`(?![0-9#*])\p{Emoji}[\uFE0E\uFE0F]`,
  String.raw`[0-9#*]\uFE0F(?=\u20E3)`,
  // The flags of England, Scotland and Wales.
  String.raw`\u{1F3F4}(?:${['gbeng', 'gbsct', 'gbwls'].map(formatTags).join('|')})`,
  String.raw`(?![${NOT_JOINED}])[${JOINED_SCRIPTS.map((name) => String.raw`\p{Script_Extensions=${name}}`).join('')}][\u200C\u200D]`,
  // Forms of one letter, such as the two ways to write a family name.
  String.raw`\p{Ideographic}[\uFE00-\uFE02\u{E0100}-\u{E01EF}]`,
  // A Mongolian letter. The selectors themselves are of that script, too.
  String.raw`(?!\p{Default_Ignorable_Code_Point})\p{Script=Mongolian}[\u180B-\u180F]`,
  // A space between two words of Braille.
  String.raw`[\u2801-\u28FF]\u2800(?=[\u2801-\u28FF])`,
].join('|');
const LINE_BREAKS_AND_TABS = String.raw`[\t\n]|\r(?=\n)`;

/** `line`: text of one line, without tabs. */
export type TextShape = 'line' | 'lines';
const patterns: Readonly<Record<TextShape, RegExp>> = {
  line: new RegExp(`${ALLOWED}|(?<hidden>[${HIDDEN}${BRAILLE_BLANK}])`, 'gu'),
  lines: new RegExp(`${LINE_BREAKS_AND_TABS}|${ALLOWED}|(?<hidden>[${HIDDEN}])`, 'gu'),
};

/** Texts without any hidden character. Most are such, and the other patterns take many times as long. */
const plain: Readonly<Record<TextShape, RegExp>> = { line: /^[\x20-\x7e]*$/, lines: /^[\t\n\x20-\x7e]*$/ };

function formatTags(region: string): string {
  const tags = [...region].map((letter) => String.raw`\u{E00${letter.charCodeAt(0).toString(16)}}`);
  return String.raw`${tags.join('')}\u{E007F}`;
}

interface HiddenCharacter {
  /** Says what is wrong, as the end of a sentence. */
  readonly fault: string;
  /** Its index in the text. */
  readonly at: number;
}

/** Returns the first character that breaks the rule, or null. */
export function findHiddenCharacter(text: string, shape: TextShape): HiddenCharacter | null {
  if (plain[shape].test(text)) return null;
  for (const match of text.matchAll(patterns[shape])) {
    const found = match.groups?.hidden;
    if (found === undefined) continue;
    const fault = `contains ${nameCharacter(found)}, a control, direction or invisible character; remove it`;
    return { fault, at: match.index };
  }
  return null;
}

/** Why a text breaks the rule, as the end of a sentence; null if it does not. */
export const describeHiddenCharacter = (text: string, shape: TextShape): string | null =>
  findHiddenCharacter(text, shape)?.fault ?? null;

/** Replaces each character that breaks the rule. */
export function replaceHiddenCharacters(text: string, shape: TextShape, replace: (hidden: string) => string): string {
  return text.replace(patterns[shape], (match: string, hidden: string | undefined) =>
    hidden === undefined ? match : replace(hidden),
  );
}

/** Writes a character as Unicode names it, such as `U+202E`. */
export const nameCharacter = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;

/** Writes a character as escapes of JavaScript and JSON, such as `\u202e`. */
export const escapeCharacter = (character: string): string =>
  [...Array(character.length).keys()]
    .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
    .join('');
