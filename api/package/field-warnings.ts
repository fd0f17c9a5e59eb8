/** Finds settings and secrets that the code never reads, and reads of names that the frontmatter does not declare. */
import { mapPosition } from '../../db/records/source-maps.ts';
import { formatLocation } from '../../sdk/contract/errors.ts';
import type { Manifest } from '../../sdk/contract/manifest.ts';
import { findNearName } from '../../service/text/near-name.ts';
import { cutQuoted } from '../../service/text/quoted-text.ts';
import type { LoopSlices } from '../../service/timing/loop-turns.ts';
import { LineIndex } from './line-index.ts';

/** Different names of one kind that are compared with the declared ones; a plugin declares at most 64. */
const NAMES_MAX = 1_000;

/** A name in quotes, at most as long as a declared one. */
const QUOTED = `(?:"([^"\\\\]{1,64})"|'([^'\\\\]{1,64})')`;
/** How code reads one field by its name. */
const READ_SETTING = `\\s*(?:\\.\\s*([A-Za-z_$][\\w$]*)|\\[\\s*${QUOTED}\\s*\\])`;
const READ_SECRET = `\\s*\\.\\s*get\\(\\s*${QUOTED}\\s*[,)]`;

interface Kind {
  readonly name: 'setting' | 'secret';
  /** Each read of one field, after the object that certainly holds the fields, if it is written there. */
  readonly reads: RegExp;
  /** Fields that are read as a whole or by a computed name. */
  readonly others: RegExp;
  /** What code gets that reads an undeclared name. */
  readonly effect: string;
}
const SETTINGS: Kind = {
  name: 'setting',
  reads: new RegExp(`(?:\\b(ctx|host)\\s*\\.\\s*)?\\bsettings${READ_SETTING}`, 'g'),
  others: new RegExp(`\\bsettings\\b(?!${READ_SETTING})`),
  effect: 'so it is undefined',
};
const SECRETS: Kind = {
  name: 'secret',
  reads: new RegExp(`(?:\\b(host)\\s*\\.\\s*)?\\bsecrets${READ_SECRET}`, 'g'),
  others: new RegExp(`\\bsecrets\\b(?!${READ_SECRET})`),
  effect: 'so host.secrets.get returns null',
};

interface BuiltCode {
  /** The bundle, without comments. */
  readonly code: string;
  readonly sourceMap: string;
}

/** @param max number of warnings of each sort */
export async function findFieldWarnings(
  { settings, secrets }: Manifest,
  built: BuiltCode,
  slices: LoopSlices,
  max: number,
): Promise<string[]> {
  return [
    ...(await findWarningsOf(SETTINGS, Object.keys(settings), built, slices, max)),
    ...(await findWarningsOf(SECRETS, Object.keys(secrets), built, slices, max)),
  ];
}

async function findWarningsOf(
  kind: Kind,
  declared: readonly string[],
  { code, sourceMap }: BuiltCode,
  slices: LoopSlices,
  max: number,
): Promise<string[]> {
  const known = new Set(declared);
  const read = new Set<string>();
  const undeclared = new Map<string, { offset: number; near: string | null }>();
  const compared = new Set<string>();
  for (const { 0: text, 1: owner, 2: first, 3: second, 4: third, index } of code.matchAll(kind.reads)) {
    await slices.pauseWhenOver();
    const name = first ?? second ?? third ?? '';
    if (known.has(name)) read.add(name);
    // Every object has methods such as `hasOwnProperty`.
    if (known.has(name) || name in Object.prototype || undeclared.has(name) || undeclared.size === max) continue;
    const key = `${owner ?? ''} ${name}`;
    if (compared.has(key) || compared.size === NAMES_MAX) continue;
    compared.add(key);
    const near = findNearName(name, declared);
    // Other objects may be called the same. If a field of one resembles a declared name, it is probably meant.
    if (owner === undefined && near === null) continue;
    undeclared.set(name, { offset: index + text.lastIndexOf(name), near });
  }
  await slices.pauseWhenOver();
  const unread = kind.others.test(code) ? [] : declared.filter((name) => !read.has(name)).slice(0, max);
  return [
    ...locateUndeclared(kind, undeclared, code, sourceMap),
    ...unread.map((name) => `The ${kind.name} “${name}” is declared but never read.`),
  ];
}

function locateUndeclared(
  { name: kind, effect }: Kind,
  undeclared: ReadonlyMap<string, { offset: number; near: string | null }>,
  code: string,
  sourceMap: string,
): string[] {
  if (undeclared.size === 0) return [];
  const lines = new LineIndex(code);
  return [...undeclared].map(([name, { offset, near }]) => {
    const advice = near === null ? 'Declare it in the frontmatter of readme.md.' : `Did you mean “${near}”?`;
    const message = `The ${kind} “${cutQuoted(name)}” is not declared, ${effect}. ${advice}`;
    return formatLocation({ ...mapPosition(sourceMap, lines.locate(offset)), message });
  });
}
