/** Which number the next version should have, by what changed for those who use it. Pure, but for the reading of semver. */
import { inc, rsort } from 'semver';
import type { Discovered, Version } from './records.ts';
import { surfaceOf } from './surface.ts';

export interface Changes {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Tools whose arguments changed so that what was right before may be wrong now. */
  readonly narrowed: readonly string[];
  /** Capabilities that users are asked to grant. */
  readonly asked: readonly string[];
}
export interface Proposal {
  readonly semVer: string;
  readonly changes: Changes;
  /** Why this number, for people. */
  readonly because: string;
}
type Offer = Pick<Version, 'capabilities' | 'discovered'>;

const FIRST = '1.0.0';

/**
 * @param versions all that exist: a number is never used twice, a yanked one's neither
 * @param previous what people run now; null: nothing was published
 */
export function proposeVersion(versions: readonly Version[], previous: Version | null, next: Offer): Proposal {
  const taken = versions.map(({ semVer }) => semVer);
  if (!previous) {
    const changes = { added: surfaceOf(next.discovered), removed: [], narrowed: [], asked: [] };
    return { semVer: free(taken.length === 0 ? FIRST : highest(taken), taken), changes, because: 'the first version' };
  }
  const changes = changesBetween(previous, next);
  const breaking = changes.removed.length + changes.narrowed.length > 0;
  const wider = changes.added.length + changes.asked.length > 0;
  const isYoung = previous.semVer.startsWith('0.');
  // Before 1.0.0 what breaks raises the second number.
  const step = breaking ? (isYoung ? 'minor' : 'major') : wider ? 'minor' : 'patch';
  const semVer = free(inc(previous.semVer, step) ?? FIRST, taken);
  return { semVer, changes, because: reason(changes) };
}

export function changesBetween(before: Offer, after: Offer): Changes {
  const [old, now] = [surfaceOf(before.discovered), surfaceOf(after.discovered)];
  return {
    added: now.filter((name) => !old.includes(name)),
    removed: old.filter((name) => !now.includes(name)),
    narrowed: narrowedTools(before.discovered, after.discovered),
    asked: after.capabilities.filter((name) => name.startsWith('host.') && !before.capabilities.includes(name)),
  };
}

/** A change of a schema that only adds optional properties asks nothing of those who called the tool before. */
function narrowedTools(before: Discovered, after: Discovered): string[] {
  return after.tools.flatMap(({ name, parameters }) => {
    const old = before.tools.find((tool) => tool.name === name);
    return old && !accepts(parameters, old.parameters) ? [`tools.${name}`] : [];
  });
}

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly required?: readonly string[];
}

function accepts(now: unknown, before: unknown): boolean {
  const { properties = {}, required = [], ...rest } = (now ?? {}) as ObjectSchema;
  const { properties: old = {}, required: needed = [], ...oldRest } = (before ?? {}) as ObjectSchema;
  const sameProperties = Object.entries(old).every(([name, schema]) =>
    isSame(withoutText(properties[name]), withoutText(schema)),
  );
  return (
    sameProperties && required.every((name) => needed.includes(name)) && isSame(withoutText(rest), withoutText(oldRest))
  );
}

/** Words for people and models, which no argument is checked against. */
const withoutText = (schema: unknown): unknown =>
  JSON.parse(
    JSON.stringify(schema ?? null, (key, value) =>
      key === 'description' && typeof value === 'string' ? undefined : value,
    ),
  );
const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

function reason({ added, removed, narrowed, asked }: Changes): string {
  const parts = [
    ...(removed.length > 0 ? [`removes ${removed.join(', ')}`] : []),
    ...(narrowed.length > 0 ? [`changes the arguments of ${narrowed.join(', ')}`] : []),
    ...(added.length > 0 ? [`adds ${added.join(', ')}`] : []),
    ...(asked.length > 0 ? [`asks for ${asked.join(', ')}`] : []),
  ];
  return parts.length > 0 ? parts.join('; ') : 'changes nothing that others see';
}

const highest = (taken: readonly string[]): string => rsort([...taken])[0] ?? FIRST;

function free(wanted: string, taken: readonly string[]): string {
  let semVer = wanted;
  while (taken.includes(semVer)) semVer = inc(semVer, 'patch') ?? `${semVer}-1`;
  return semVer;
}

/** The version people run: the highest published one, a pre-release only where there is no other. */
export function latestOf(versions: readonly Version[]): Version | null {
  const published = versions.filter(({ status }) => status === 'published');
  const stable = published.filter(({ semVer }) => !semVer.includes('-'));
  const [latest] = rsort((stable.length > 0 ? stable : published).map(({ semVer }) => semVer));
  return published.find(({ semVer }) => semVer === latest) ?? null;
}
