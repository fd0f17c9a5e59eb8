/** Reads the files of a skill for agents: small ones in the response, larger ones by link. */
import type { Readable } from 'node:stream';
import { findFile, listFilesBelow, type VersionFile } from '../../db/catalog/versions.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { isPlainText, sniff } from '../host/media.ts';
import { belowFrontmatter, type PromptText } from './prompt-texts.ts';
import type { SessionServices } from './session-services.ts';

/** The instructions of a skill, below the frontmatter. */
export const SKILL_TEXT = 'SKILL.md';
/** Maximum size of a file in a response; larger ones are downloaded. */
export const SKILL_FILE_BYTES = MIB;
/** Maximum number of files that are listed together. Further ones of a skill can be read by their path. */
const RESOURCES_MAX = 1_000;

export interface Skill {
  readonly plugin: InstalledPlugin;
  readonly text: PromptText;
}
/** One file of a skill. Without content: too large for a response. */
interface SkillFile {
  readonly path: string;
  /** Detected from the bytes. */
  readonly mediaType: string;
  readonly sizeBytes: number;
  readonly encoding: 'utf8' | 'base64' | null;
  readonly content: string | null;
}

const formatFolder = ({ text }: Skill): string => `skills/${text.name}`;

export interface SkillResource {
  readonly path: string;
  readonly sizeBytes: number;
}

/** Lists the files next to a skill's SKILL.md, by path in the skill's folder. */
export async function listResources(services: SessionServices, skill: Skill): Promise<SkillResource[]> {
  const [files = []] = await listResourcesOf(services, [skill]);
  return files;
}

/**
 * Lists the files next to SKILL.md of several skills with one query.
 *
 * @returns the files of the first skill, and of those after it whose files fit, too
 */
export async function listResourcesOf(
  { pool }: SessionServices,
  skills: readonly Skill[],
): Promise<readonly SkillResource[][]> {
  const folders = skills.map((skill) => ({ versionId: skill.plugin.versionId, folder: formatFolder(skill) }));
  const files = await listFilesBelow(pool, folders, RESOURCES_MAX);
  // The limit may have cut the files of the last skill that has rows.
  const cutIndex = files.length < RESOURCES_MAX ? skills.length : (files.at(-1)?.index ?? 0);
  const listed = skills.slice(0, Math.max(1, cutIndex)).map((): SkillResource[] => []);
  for (const { index, path, sizeBytes } of files) {
    const ownPath = path.slice((folders[index]?.folder.length ?? 0) + 1);
    if (ownPath !== SKILL_TEXT) listed[index]?.push({ path: ownPath, sizeBytes });
  }
  return listed;
}

/**
 * Reads a file by its path in the skill's folder; for SKILL.md, the text below the frontmatter.
 *
 * @throws Problem `not_found`
 */
export async function readSkillFile(services: SessionServices, skill: Skill, path: string): Promise<SkillFile> {
  const { sha256, sizeBytes } = await findSkillFile(services, skill, path);
  const known = { path, sizeBytes };
  if (sizeBytes > SKILL_FILE_BYTES) {
    const mediaType = await sniff(await beginning(services.blobs.stream(sha256)));
    return { ...known, mediaType, encoding: null, content: null };
  }
  const bytes = await services.blobs.read(sha256);
  const mediaType = await sniff(bytes);
  if (!isPlainText(bytes)) return { ...known, mediaType, encoding: 'base64', content: bytes.toString('base64') };
  const text = bytes.toString('utf8');
  return { ...known, mediaType, encoding: 'utf8', content: path === SKILL_TEXT ? belowFrontmatter(text) : text };
}

/** Finds a file of any size. Only the exact published path matches, so it cannot lead elsewhere. @throws Problem `not_found` */
export async function findSkillFile({ pool }: SessionServices, skill: Skill, path: string): Promise<VersionFile> {
  const found = await findFile(pool, skill.plugin.versionId, `${formatFolder(skill)}/${path}`);
  if (!found) throw new Problem('not_found', `The skill “${skill.text.name}” has no file with this path.`);
  return found;
}

/** The first bytes of a file, without the last character, which the end of the chunk may cut: a text would not look like one. */
async function beginning(bytes: Readable): Promise<Uint8Array> {
  for await (const chunk of bytes as AsyncIterable<Uint8Array>) {
    const last = chunk.findLastIndex(isFirstByte);
    return chunk.length - last > CHARACTER_MAX_BYTES ? chunk : chunk.subarray(0, last);
  }
  return new Uint8Array();
}

const CHARACTER_MAX_BYTES = 4;
/** Whether a byte of UTF-8 begins a character. */
const isFirstByte = (byte: number): boolean => (byte & 0xc0) !== 0x80;
