// A package may contain many files, which index.ts imports by relative path.

/** Groups of digits with one space or hyphen between them. Linear, because no two matches begin in the same groups. */
const DIGIT_GROUPS = /\b\d+(?:[ -]\d+)*\b/g;
/** ISO/IEC 7812 allows at most 19 digits; the shortest numbers in common use have 13. */
const CARD_DIGITS = { min: 13, max: 19 };

/** Replaces card numbers. Other long numbers stay, because they fail the Luhn check. */
export function hideCardNumbers(text: string): string {
  return text.replace(DIGIT_GROUPS, hideInGroups);
}

/** An expiry date, a CVC or a quantity may stand beside the card number, so each group is tried as its start and as its end. */
function hideInGroups(run: string): string {
  const parts = run.split(/([ -])/);
  let hiddenUntil = -1;
  let shown = '';
  // Groups have even indexes, the separators before them odd ones.
  for (let start = 0; start < parts.length; start += 2) {
    const end = findCardEnd(parts, start);
    const isHidden = start <= hiddenUntil;
    // Overlapping numbers are hidden together: one of them passes the Luhn check by chance.
    hiddenUntil = Math.max(hiddenUntil, end);
    if (isHidden) continue;
    shown += (parts[start - 1] ?? '') + (end >= start ? '[card number]' : parts[start]);
  }
  return shown;
}

/** Returns the index of the last group of the longest card number that begins with a group, or -1. */
function findCardEnd(parts: readonly string[], start: number): number {
  let digits = '';
  let found = -1;
  for (let at = start; at < parts.length; at += 2) {
    const group = parts[at] ?? '';
    if (digits.length + group.length > CARD_DIGITS.max) break;
    digits += group;
    if (digits.length >= CARD_DIGITS.min && passesLuhn(digits)) found = at;
  }
  return found;
}

function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (const [place, digit] of [...digits].reverse().entries()) {
    const doubled = Number(digit) * (place % 2 === 1 ? 2 : 1);
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}
