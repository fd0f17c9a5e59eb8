/** Finds the forms of many secrets in a text, and replaces them. */
import { randomInt } from 'node:crypto';
import { MASKED_MIN_CHARS } from '../../sdk/contract/limits.ts';
import { bisect } from '../../service/text/bisect.ts';

/** The search compares blocks of two characters by their hash. */
const BLOCK_CHARS = 2;
const BLOCK_HASHES = 4_096;
/** Characters of a form that are kept. A longer one is encoded again when its head and its hash are found. */
const HEAD_CHARS = 64;
/**
 * Many secrets may have one head. A text that holds it at every character is compared to long forms this often per character, and
 * the text is removed if that is not enough: an author must not be able to stop the process that serves all accounts.
 */
const COMPARISONS_PER_CHAR = 16;
const COMPARISONS_MIN = 1_000;
const UNSEARCHED = '[a text that could not be searched for secrets]';

/** One way to write a secret. */
export interface Form {
  /** The beginning, and all of a short one. */
  readonly head: string;
  readonly chars: number;
  readonly replacement: string;
  /** Null: it is all in the head. */
  readonly whole: WholeForm | null;
}
/** A text that holds the head of a long form is compared to this. */
interface WholeForm {
  hash(): TextHash;
  read(): string;
}
interface TextHash {
  readonly hash: number;
  /** The power of the base for so many characters. */
  readonly power: number;
}

/**
 * @param whole the text
 * @param encode returns the text again: a long one is not kept
 */
export function createForm(whole: string, encode: () => string, replacement: string): Form {
  const isLong = whole.length > HEAD_CHARS;
  return {
    head: isLong ? copyText(whole.slice(0, HEAD_CHARS)) : whole,
    chars: whole.length,
    replacement,
    whole: isLong ? toWholeForm(encode) : null,
  };
}

function toWholeForm(read: () => string): WholeForm {
  let known: TextHash | undefined;
  return {
    read,
    hash() {
      known ??= hashText(read());
      return known;
    },
  };
}

/** A slice refers to the text that it was cut from, which stays in memory with it. */
const copyText = (slice: string): string => Buffer.from(slice, 'utf16le').toString('utf16le');

/** The beginning of a text, masked, and the rest, which further text may change. Null: the text could not be searched. */
interface Certain {
  readonly masked: string;
  readonly rest: string | null;
}
/** A form, and where a text has it or a prefix of it. */
interface Found {
  readonly start: number;
  readonly form: Form;
}

/**
 * Finds many texts in one pass (Wu and Manber): the last block of a window as long as the shortest form says how far no form can
 * begin. A prompt of 4 KB without a secret takes a few microseconds, however many forms there are.
 */
export class FormSearch {
  readonly #formMaxChars: number;
  readonly #windowChars: number;
  /** By the hash of a block: characters to skip; 0: a form may begin here. */
  readonly #skips: Uint8Array;
  /** Sorted, each once. */
  readonly #heads: readonly string[];
  /** For each head its forms, the longest first. */
  readonly #forms: readonly (readonly Form[])[];
  /** For each head the place of the longest other one that is a prefix of it; -1: none. */
  readonly #parents: Int32Array;
  /** The first characters of all forms. */
  readonly #firsts: ReadonlySet<number>;

  constructor(forms: readonly Form[]) {
    const byHead = Map.groupBy(forms, ({ head }) => head);
    this.#heads = [...byHead.keys()].sort();
    this.#forms = this.#heads.map((head) => (byHead.get(head) ?? []).toSorted((one, other) => other.chars - one.chars));
    this.#parents = findParents(this.#heads);
    this.#firsts = new Set(this.#heads.map((head) => head.charCodeAt(0)));
    this.#formMaxChars = forms.reduce((most, { chars }) => Math.max(most, chars), 0);
    this.#windowChars = this.#heads.reduce((least, { length }) => Math.min(least, length), HEAD_CHARS);
    this.#skips = new Uint8Array(BLOCK_HASHES).fill(this.#windowChars - BLOCK_CHARS + 1);
    for (const head of this.#heads) this.#addWindow(head);
  }

  #addWindow(head: string): void {
    const last = this.#windowChars - 1;
    for (let at = BLOCK_CHARS - 1; at <= last; at += 1) {
      const hash = hashBlock(head, at);
      this.#skips[hash] = Math.min(this.#skips[hash] ?? 0, last - at);
    }
  }

  replace(text: string): string {
    if (text.length < this.#windowChars) return text;
    try {
      return this.#replaceAll(text);
    } catch (error) {
      if (error instanceof SearchLimitError) return UNSEARCHED;
      throw error;
    }
  }

  #replaceAll(text: string): string {
    const searched = new SearchedText(text);
    let replaced = '';
    let copiedTo = 0;
    for (let found = this.#find(searched, 0); found; found = this.#find(searched, copiedTo)) {
      replaced += text.slice(copiedTo, found.start) + found.form.replacement;
      copiedTo = found.start + found.form.chars;
    }
    return copiedTo === 0 ? text : replaced + text.slice(copiedTo);
  }

  /** Replaces what no further text can change; `rest` may begin a form that is longer than the text. */
  replaceCertain(text: string): Certain {
    try {
      return this.#replaceUntilOpen(text);
    } catch (error) {
      if (error instanceof SearchLimitError) return { masked: UNSEARCHED, rest: null };
      throw error;
    }
  }

  #replaceUntilOpen(text: string): Certain {
    const searched = new SearchedText(text);
    let masked = '';
    let copiedTo = 0;
    let openFrom = this.#findOpen(text, 0)?.start ?? text.length;
    for (;;) {
      if (openFrom < copiedTo) openFrom = this.#findOpen(text, copiedTo)?.start ?? text.length;
      const found = this.#find(searched, copiedTo, openFrom);
      if (!found) return { masked: masked + text.slice(copiedTo, openFrom), rest: text.slice(openFrom) };
      masked += text.slice(copiedTo, found.start) + found.form.replacement;
      copiedTo = found.start + found.form.chars;
    }
  }

  /** Replaces the end of a text from where it may be a prefix of a form. */
  replaceOpenEnd(text: string): string {
    const open = this.#findOpen(text, 0);
    if (open === null || text.length - open.start < MASKED_MIN_CHARS) return text;
    return text.slice(0, open.start) + open.form.replacement;
  }

  /**
   * Finds the first form that begins at `from` or later and before `until`, the longest of several.
   *
   * @throws SearchLimitError
   */
  #find(searched: SearchedText, from: number, until = searched.text.length): Found | null {
    const { text } = searched;
    const end = Math.min(text.length, until + this.#windowChars - 1);
    for (let at = from + this.#windowChars - 1; at < end; ) {
      const skip = this.#skips[hashBlock(text, at)] ?? 1;
      const start = at - this.#windowChars + 1;
      const mayBegin = skip === 0 && this.#firsts.has(text.charCodeAt(start));
      const form = mayBegin ? this.#findAt(searched, start) : undefined;
      if (form) return { start, form };
      at += Math.max(skip, 1);
    }
    return null;
  }

  /**
   * Every head that is a prefix of a text is sorted before the text, and each head between the two begins with it. So the nearest
   * head before the text and its parents are all that can be prefixes.
   */
  #findAt(searched: SearchedText, start: number): Form | undefined {
    const { text } = searched;
    const ahead = text.slice(start, start + HEAD_CHARS);
    const next = this.#findPlace(ahead);
    let place = this.#heads[next] === ahead ? next : next - 1;
    for (; place >= 0; place = this.#parents[place] ?? -1) {
      if (!ahead.startsWith(this.#heads[place] ?? '')) continue;
      const forms = this.#forms[place] ?? [];
      // Many secrets of one head may be longer than the rest of the text.
      const fitting = bisect(forms.length, (index) => (forms[index]?.chars ?? 0) <= text.length - start);
      for (let index = fitting; index < forms.length; index += 1) {
        const form = forms[index];
        if (form && searched.hasAt(start, form)) return form;
      }
    }
    return undefined;
  }

  /**
   * Finds the first place from which the rest of a text may be a prefix of a form. Only the head of a long form is compared, in the
   * same time for every text. So a text that has the head alone waits until it is longer than the form.
   */
  #findOpen(text: string, from: number): Found | null {
    for (let start = Math.max(from, text.length - this.#formMaxChars + 1); start < text.length; start += 1) {
      if (!this.#firsts.has(text.charCodeAt(start))) continue;
      const form = this.#findOpenAt(text, start);
      if (form) return { start, form };
    }
    return null;
  }

  #findOpenAt(text: string, start: number): Form | null {
    const ahead = text.slice(start, start + HEAD_CHARS);
    // The heads that begin with it are neighbours, and only the first can have the same length.
    for (let place = this.#findPlace(ahead); this.#heads[place]?.startsWith(ahead); place += 1) {
      const longest = this.#forms[place]?.[0];
      if (longest && longest.chars > text.length - start) return longest;
    }
    return null;
  }

  /** Finds the place of the first head that is not sorted before a text. */
  #findPlace(text: string): number {
    return bisect(this.#heads.length, (place) => (this.#heads[place] ?? '') >= text);
  }
}

/** @param heads sorted, so that a head comes after its prefixes */
function findParents(heads: readonly string[]): Int32Array {
  const parents = new Int32Array(heads.length).fill(-1);
  const begun: number[] = [];
  for (const [place, head] of heads.entries()) {
    while (begun.length > 0 && !head.startsWith(heads[begun.at(-1) ?? 0] ?? '')) begun.pop();
    parents[place] = begun.at(-1) ?? -1;
    begun.push(place);
  }
  return parents;
}

class SearchLimitError extends Error {}

/** A prime whose square a number holds exactly. */
const HASH_PRIME = 67_108_859;
/** Random, so that an author cannot write a text whose parts have the same hash. */
const HASH_BASE = randomInt(2 ** 16, HASH_PRIME);

function hashText(text: string): TextHash {
  let hash = 0;
  let power = 1;
  for (let at = 0; at < text.length; at += 1) {
    hash = (hash * HASH_BASE + text.charCodeAt(at)) % HASH_PRIME;
    power = (power * HASH_BASE) % HASH_PRIME;
  }
  return { hash, power };
}

/**
 * A text whose parts are compared by their hashes (Rabin and Karp). Without them, a text that holds the head of a long secret at
 * every character would be compared to the secret's end at every character.
 */
class SearchedText {
  readonly text: string;
  /** At each place the hash of what comes before it. Computed when the text holds the head of a long form. */
  #hashes: Uint32Array | null = null;
  #comparisonsLeft: number;

  constructor(text: string) {
    this.text = text;
    this.#comparisonsLeft = COMPARISONS_MIN + COMPARISONS_PER_CHAR * text.length;
  }

  /** Whether a form stands at a place that has its head and room for all of it. @throws SearchLimitError */
  hasAt(start: number, { chars, whole }: Form): boolean {
    if (whole === null) return true;
    this.#comparisonsLeft -= 1;
    if (this.#comparisonsLeft < 0) throw new SearchLimitError();
    this.#hashes ??= this.#computeHashes();
    const { hash, power } = whole.hash();
    const before = ((this.#hashes[start] ?? 0) * power) % HASH_PRIME;
    const here = ((this.#hashes[start + chars] ?? 0) - before + HASH_PRIME) % HASH_PRIME;
    return here === hash && this.text.startsWith(whole.read(), start);
  }

  #computeHashes(): Uint32Array {
    const { text } = this;
    const hashes = new Uint32Array(text.length + 1);
    let hash = 0;
    for (let at = 0; at < text.length; at += 1) {
      hash = (hash * HASH_BASE + text.charCodeAt(at)) % HASH_PRIME;
      hashes[at + 1] = hash;
    }
    return hashes;
  }
}

/** Hashes the block that ends at a character. */
const hashBlock = (text: string, at: number): number =>
  ((text.charCodeAt(at - 1) << 5) ^ text.charCodeAt(at)) & (BLOCK_HASHES - 1);
