/**
 * A folder of Agent Skills (agentskills.io) as a plugin of ours: `skills/<name>/…` as it is, with a readme.md and an index.ts
 * that say what it is. An Agent Plugin (a folder with plugin.json and skills/) is read too; what is no skill is named and left out.
 */
import { lstat, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { limits, MIB } from '../contract/limits.ts';

/** As many as a package may have of them. */
const SKILLS_MAX = limits.commands;
/** Of one package. */
const FILES_MAX = 10_000;
const BYTES_MAX = 256 * MIB;
const DEPTH_MAX = 12;
const SKILL_NAME = /^[a-z0-9]+(-[a-z0-9]+)*$/;
const NAME_MAX_CHARS = 64;
const DESCRIPTION_MAX_CHARS = 280;
/** Whatever would make one name look like another. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu;

export interface ImportedFile {
  /** Inside the package, `/` between names. */
  readonly path: string;
  /** Where its bytes are; null: they are `text`. */
  readonly at: string | null;
  readonly text: string | null;
}
export interface SkillImport {
  readonly name: string;
  readonly skills: readonly string[];
  readonly files: readonly ImportedFile[];
  /** What was left out, one sentence each. */
  readonly notes: readonly string[];
}

/** A folder that cannot be imported; the message says what to do. */
export class ImportError extends Error {
  override readonly name = 'ImportError';
}

/**
 * Reads skills. Nothing is written, and no link is followed.
 *
 * @param folder of skills, of one skill, or an Agent Plugin
 * @throws ImportError
 */
export async function readSkillFolder(folder: string): Promise<SkillImport> {
  const root = resolve(folder);
  const found = await lstat(root).catch(() => null);
  if (!found?.isDirectory()) throw new ImportError(`${folder} is no folder: name the one that holds the skills.`);
  const manifest = await readManifest(root);
  const notes: string[] = [];
  if (await isFile(join(root, 'mcp.json')))
    notes.push('mcp.json is left out: a plugin brings tools as code of its own, not as a server.');
  const at = await findSkills(root, manifest !== null, notes);
  if (at.length === 0) throw new ImportError(`${folder} holds no skill: a skill is a folder with a SKILL.md in it.`);
  if (at.length > SKILLS_MAX) throw new ImportError(`${folder} holds ${at.length} skills; ${SKILLS_MAX} is the most.`);
  const files: ImportedFile[] = [];
  const room = { files: FILES_MAX, bytes: BYTES_MAX };
  for (const skill of at) files.push(...(await readTree(skill, `skills/${basename(skill)}`, room, DEPTH_MAX)));
  const skills = at.map((skill) => basename(skill)).sort();
  const name = shown(manifest?.name ?? basename(root), NAME_MAX_CHARS) || 'Skills';
  const description = shown(manifest?.description ?? `Skills: ${skills.join(', ')}.`, DESCRIPTION_MAX_CHARS);
  return { name, skills, notes, files: [...heads(name, description, skills), ...files] };
}

/** Writes an import as a package. @throws ImportError: the folder is there and holds something */
export async function writeSkillPackage({ files }: SkillImport, folder: string): Promise<void> {
  const present = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw new ImportError(`${folder} cannot be written to: name a new folder.`);
  });
  if (present.length > 0) throw new ImportError(`${folder} is not empty: name a new folder.`);
  for (const { path, at, text } of files) {
    const target = join(folder, path);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, at === null ? (text ?? '') : await readFile(at), { flag: 'wx' });
  }
}

async function findSkills(root: string, isPlugin: boolean, notes: string[]): Promise<string[]> {
  if (!isPlugin && (await isFile(join(root, 'SKILL.md')))) return [named(root)];
  const inside = join(root, 'skills');
  const folder = (await lstat(inside).catch(() => null))?.isDirectory() ? inside : root;
  const found: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const at = join(folder, entry.name);
    if (entry.name.startsWith('.')) continue;
    if (entry.isSymbolicLink()) throw new ImportError(`${at} is a link; only files and folders are imported.`);
    if (!entry.isDirectory()) continue;
    if (await isFile(join(at, 'SKILL.md'))) found.push(named(at));
    else notes.push(`${entry.name} is left out: it has no SKILL.md.`);
  }
  return found.sort();
}

function named(at: string): string {
  const name = basename(at);
  if (SKILL_NAME.test(name) && name.length <= NAME_MAX_CHARS) return at;
  throw new ImportError(
    `${at}: a skill’s folder is named in lower-case letters, digits and single hyphens, like its name in SKILL.md; rename it.`,
  );
}

async function readTree(
  at: string,
  path: string,
  room: { files: number; bytes: number },
  depth: number,
): Promise<ImportedFile[]> {
  if (depth === 0) throw new ImportError(`${at} lies too deep: ${DEPTH_MAX} folders below a skill is the most.`);
  const files: ImportedFile[] = [];
  for (const { name } of await readdir(at, { withFileTypes: true })) {
    if (name.startsWith('.')) continue;
    const [below, inside] = [join(at, name), `${path}/${name}`];
    // Asked again rather than believed: the folder is somebody else's.
    const found = await lstat(below);
    if (found.isDirectory()) files.push(...(await readTree(below, inside, room, depth - 1)));
    else if (!found.isFile()) throw new ImportError(`${below} is a link or a device; only files are imported.`);
    else {
      room.files -= 1;
      room.bytes -= found.size;
      if (room.files < 0) throw new ImportError(`The skills hold more than ${FILES_MAX} files.`);
      if (room.bytes < 0) throw new ImportError(`The skills hold more than ${BYTES_MAX} bytes.`);
      files.push({ path: inside, at: below, text: null });
    }
  }
  return files;
}

const isFile = async (path: string): Promise<boolean> => (await lstat(path).catch(() => null))?.isFile() === true;

/** Name and description of an Agent Plugin; null where it is none. @throws ImportError */
async function readManifest(root: string): Promise<{ name?: string; description?: string } | null> {
  const at = join(root, 'plugin.json');
  if (!(await isFile(at))) return null;
  const { size } = await lstat(at);
  if (size > MIB) throw new ImportError(`${at} is larger than ${MIB} bytes.`);
  try {
    const { name, description } = JSON.parse(await readFile(at, 'utf8')) as Record<string, unknown>;
    return {
      ...(typeof name === 'string' ? { name } : {}),
      ...(typeof description === 'string' ? { description } : {}),
    };
  } catch {
    throw new ImportError(`${at} is no JSON object: mend it.`);
  }
}

/** One line that people read. */
const shown = (text: string, max: number): string =>
  text.replace(UNSEEN, ' ').replace(/\s+/g, ' ').trim().slice(0, max).toWellFormed().trim();

function heads(name: string, description: string, skills: readonly string[]): ImportedFile[] {
  // JSON's strings are YAML's too.
  const head = `---\nname: ${JSON.stringify(name)}\ndescription: ${JSON.stringify(description)}\n---\n`;
  const list = skills.map((skill) => `- \`${skill}\``).join('\n');
  return [
    { path: 'readme.md', at: null, text: `${head}\n# ${name}\n\n${description}\n\n${list}\n` },
    { path: 'index.ts', at: null, text: '// Skills need no code.\n' },
  ];
}
