/** Compares the version that an installation runs with the one it is asked about: what models read, and the source. */
import { z } from 'zod';
import { findVersion, listFiles, type Version, type VersionFile } from '../../db/catalog/versions.ts';
import { findNewlyMissing } from '../../db/installations/consent-rule.ts';
import type { Installation } from '../../db/installations/installations.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { decodeText } from '../../sdk/contract/text-bytes.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { LoopSlices, waitForLoopTurn } from '../../service/timing/loop-turns.ts';
import { configurationFields, showFields } from '../plugins/manifest-resource.ts';
import { discovered } from '../plugins/plugin-resource.ts';
import type { Services } from '../services.ts';
import { requireInstallation } from './installation-lookup.ts';
import { type DiffLine, diffLines } from './line-diff.ts';
import { cutLongLines, LINE_MAX_CHARS } from './long-lines.ts';

const changeKind = z.enum(['added', 'removed', 'changed']);
const lines = z
  .array(
    z.strictObject({
      kind: z.enum(['same', 'added', 'removed', 'gap']),
      text: z
        .string()
        .describe(
          'Texts that models read are whole. Other long lines are cut around what differs, with the number of characters that are not shown.',
        ),
    }),
  )
  .nullable()
  .describe('Null: binary or too long, or the response has its maximum of lines or characters.');

export const updateChanges = z
  .strictObject({
    versionId: z.string(),
    semVer: z.string().nullable().describe('Null: the draft.'),
    fromSemVer: z.string().nullable(),
    texts: z
      .array(
        z.strictObject({ kind: z.enum(['tool', 'command', 'skill']), name: z.string(), change: changeKind, lines }),
      )
      .describe('The texts that models read: descriptions and parameters of tools, commands and skills.'),
    fields: configurationFields.describe(
      'The settings and secrets that it needs and the running version does not, without those that have a value.',
    ),
    files: z
      .array(z.strictObject({ path: z.string(), change: changeKind, lines }))
      .describe('Every file that changed.'),
  })
  .meta({ id: 'UpdateChanges', description: 'The changes of an update besides access.' });
type UpdateChanges = z.output<typeof updateChanges>;
/** What models read of a tool, or of a command that the code registers. */
export interface ModelText extends Pick<UpdateChanges['texts'][number], 'kind' | 'name'> {
  readonly description: string;
  /** The schema of a tool. */
  readonly parameters?: unknown;
}

/** Longer files and texts are listed, not compared. Bytes of a file, characters of a text. */
const LENGTH_MAX = MIB / 2;
/** Those with more lines are listed, too: comparing two of half a megabyte of empty lines took 0.2 s, in which no other request ran. */
const TEXT_MAX_LINES = 20_000;
/** Lines in one answer. A file with more than are left is listed only. */
const LINES_MAX = 5_000;
/** Bytes of files that are read for one answer, also of binary ones; files after that are listed only. */
const READ_MAX_BYTES = 8 * MIB;
/** Characters of lines in one answer: as many lines as it may have, of the length at which lines of code are cut. */
const CHARS_MAX = LINES_MAX * LINE_MAX_CHARS;
const READ_BY_MODELS = /^(?:commands|skills)\/.*\.(?:md|txt)$/is;
const CODE_OR_README = /\.[jt]s$|^readme\.md$/;
const PROMPT_FILE = /^(?:commands\/([^/]+)\.md|skills\/([^/]+)\/SKILL\.md)$/;

/**
 * @param versionId the version that the user is asked about. Undefined: that of the update
 * @throws Problem `not_pending` when no update waits, is under way or has failed, or when it is another version
 */
export async function compareUpdate(
  services: Services,
  caller: Caller,
  id: string,
  versionId: string | undefined,
): Promise<UpdateChanges> {
  const installation = await requireInstallation(services, caller, id, 'read');
  const [before, after] = await findSides(services, installation);
  if (versionId !== undefined && versionId !== after.id)
    throw new Problem(
      'not_pending',
      `The update is ${after.semVer ?? 'the draft'} now, not the version that was asked for. Read the installation again.`,
    );
  const [oldFiles, newFiles] = [await listFiles(services.pool, before.id), await listFiles(services.pool, after.id)];
  const budget = { lines: LINES_MAX, chars: CHARS_MAX, bytes: READ_MAX_BYTES };
  const texts = await compareTexts(listModelTexts(before), listModelTexts(after), budget, caller.id);
  const files: UpdateChanges['files'] = [];
  const pairs = pairChangedFiles(oldFiles, newFiles);
  const compared = new Map<string, DiffLine[] | null>();
  for (const pair of pairs.toSorted((a, b) => rankFile(a.path) - rankFile(b.path)))
    compared.set(pair.path, await compareFiles(services, pair, budget, caller.id));
  for (const { path, change } of pairs) {
    const lines = compared.get(path) ?? null;
    const [, command, skill] = PROMPT_FILE.exec(path) ?? [];
    const name = command ?? skill;
    if (name === undefined) files.push({ path, change, lines });
    else texts.push({ kind: command === undefined ? 'skill' : 'command', name, change, lines });
  }
  return {
    versionId: after.id,
    semVer: after.semVer,
    fromSemVer: before.semVer,
    texts,
    fields: showMissingFields(installation, after),
    files,
  };
}

/** What models read is compared first, then code and the readme: a large asset must not leave them without lines. */
const rankFile = (path: string): number => (READ_BY_MODELS.test(path) ? 0 : CODE_OR_README.test(path) ? 1 : 2);

function showMissingFields(installation: Installation, { manifest }: Version): UpdateChanges['fields'] {
  const missing = findNewlyMissing(installation, manifest);
  const { settings, secrets } = showFields(manifest);
  return {
    settings: settings.filter(({ name }) => missing.includes(name)),
    secrets: secrets.filter(({ name }) => missing.includes(name)),
  };
}

async function findSides({ pool }: Services, installation: Installation): Promise<[Version, Version]> {
  const { currentVersionId, pendingVersionId, targetVersionId, failedVersionId, failedStatus } = installation;
  // Its files may be removed.
  const retryable = failedStatus === 'yanked' ? null : failedVersionId;
  const wanted = pendingVersionId ?? targetVersionId ?? retryable;
  const before = currentVersionId === null ? null : await findVersion(pool, currentVersionId);
  const after = wanted === null ? null : await findVersion(pool, wanted);
  if (!before || !after) throw new Problem('not_pending', 'No update is pending, so there is nothing to compare.');
  return [before, after];
}

/** Commands and skills that are files are compared as files. */
function listModelTexts(version: Version): ModelText[] {
  const { tools, commands } = discovered.parse(version.discovered);
  return [
    ...tools.map(({ name, description, parameters }) => ({
      kind: 'tool' as const,
      name,
      description,
      parameters,
    })),
    ...commands
      .filter(({ source }) => source === 'code')
      .map(({ name, description }) => ({ kind: 'command' as const, name, description })),
  ];
}

/** What is left for the answer. */
interface Budget {
  lines: number;
  chars: number;
  bytes: number;
}

export async function compareTexts(
  before: readonly ModelText[],
  after: readonly ModelText[],
  budget: Budget,
  accountId: string,
): Promise<UpdateChanges['texts']> {
  const key = ({ kind, name }: ModelText) => `${kind} ${name}`;
  const old = new Map(before.map((text) => [key(text), text]));
  const now = new Map(after.map((text) => [key(text), text]));
  const slices = new LoopSlices(accountId);
  const texts: UpdateChanges['texts'] = [];
  for (const each of [...new Set([...old.keys(), ...now.keys()])].sort()) {
    const [was, is] = [old.get(each), now.get(each)];
    // Comparing the texts of 128 tools takes 0.2 s.
    await slices.pauseWhenOver();
    const one = is ?? was;
    if (!one || (was && is && isSameText(was, is))) continue;
    const lines = compareModelTexts(was, is, budget);
    const change = describeChange(was !== undefined, is !== undefined);
    texts.push({ kind: one.kind, name: one.name, change, lines });
  }
  return texts;
}

const isSameText = (one: ModelText, other: ModelText): boolean =>
  one.description === other.description && JSON.stringify(one.parameters) === JSON.stringify(other.parameters);

/** Null: a side is too long, or the budget is too small. */
function compareModelTexts(was: ModelText | undefined, is: ModelText | undefined, budget: Budget): DiffLine[] | null {
  if (budget.lines <= 0) return null;
  const [before, after] = [writeModelText(was), writeModelText(is)];
  return before === null || after === null ? null : compareWithin(before, after, budget);
}

function writeModelText(of: ModelText | undefined): string | null {
  if (of === undefined) return '';
  const { description, parameters } = of;
  const schemaChars = parameters === undefined ? 0 : JSON.stringify(parameters).length + countIndentation(parameters);
  if (description.length + schemaChars > LENGTH_MAX) return null;
  const text = parameters === undefined ? description : `${description}\n\n${JSON.stringify(parameters, null, 2)}`;
  return hasMoreLines(text, TEXT_MAX_LINES) ? null : text;
}

/**
 * Counts the characters that indentation by two spaces adds to the JSON of a value. Before it is written: a schema of 64 KiB that is
 * nested a hundred deep would have five million.
 */
function countIndentation(value: unknown, depth = 0): number {
  if (typeof value !== 'object' || value === null) return 0;
  const items = Object.values(value);
  if (items.length === 0) return 0;
  // A line break, and in an object the space before the value.
  const itemChars = (Array.isArray(value) ? 1 : 2) + 2 * (depth + 1);
  const innerChars = items.reduce((sum: number, item) => sum + countIndentation(item, depth + 1), 0);
  return items.length * itemChars + innerChars + 1 + 2 * depth;
}

const describeChange = (was: boolean, is: boolean): z.output<typeof changeKind> =>
  was && is ? 'changed' : is ? 'added' : 'removed';

interface ChangedFile {
  readonly path: string;
  readonly change: z.output<typeof changeKind>;
  readonly before: VersionFile | undefined;
  readonly after: VersionFile | undefined;
}

function pairChangedFiles(before: readonly VersionFile[], after: readonly VersionFile[]): ChangedFile[] {
  const old = new Map(before.map((file) => [file.path, file]));
  const now = new Map(after.map((file) => [file.path, file]));
  return [...new Set([...old.keys(), ...now.keys()])].sort().flatMap((path) => {
    const [was, is] = [old.get(path), now.get(path)];
    if (was?.sha256 === is?.sha256) return [];
    return [{ path, change: describeChange(was !== undefined, is !== undefined), before: was, after: is }];
  });
}

/** Null: a side is binary or too long, or the budget is too small. */
export async function compareFiles(
  services: Pick<Services, 'blobs'>,
  { before, after }: Pick<ChangedFile, 'before' | 'after'>,
  budget: Budget,
  accountId: string,
): Promise<DiffLine[] | null> {
  const [oldBytes, newBytes] = [before?.sizeBytes ?? 0, after?.sizeBytes ?? 0];
  if (budget.lines <= 0 || Math.max(oldBytes, newBytes) > LENGTH_MAX) return null;
  budget.bytes -= oldBytes + newBytes;
  if (budget.bytes < 0) return null;
  const [was, is] = [await readText(services, before), await readText(services, after)];
  // A package has thousands of files, and comparing two takes milliseconds.
  await waitForLoopTurn(accountId);
  if (was === null || is === null) return null;
  const isReadByModels = READ_BY_MODELS.test((after ?? before)?.path ?? '');
  return compareWithin(was, is, budget, isReadByModels ? undefined : cutLongLines);
}

async function readText({ blobs }: Pick<Services, 'blobs'>, file: VersionFile | undefined): Promise<string | null> {
  if (!file) return '';
  const text = decodeText(await blobs.read(file.sha256));
  return text === null || hasMoreLines(text, TEXT_MAX_LINES) ? null : text;
}

function hasMoreLines(text: string, most: number): boolean {
  let lines = 0;
  for (let at = text.indexOf('\n'); at >= 0 && lines <= most; at = text.indexOf('\n', at + 1)) lines += 1;
  return lines > most;
}

/** @param shorten shortens the lines; by default they are whole */
function compareWithin(
  before: string,
  after: string,
  budget: Budget,
  shorten: (lines: DiffLine[]) => DiffLine[] = (lines) => lines,
): DiffLine[] | null {
  if (budget.lines <= 0) return null;
  const lines = shorten(diffLines(before, after));
  const chars = lines.reduce((sum, { text }) => sum + text.length, 0);
  if (lines.length > budget.lines || chars > budget.chars) return null;
  budget.lines -= lines.length;
  budget.chars -= chars;
  return lines;
}
