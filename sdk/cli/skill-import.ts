/**
 * Converts a folder of Agent Skills (agentskills.io) or an Agent Plugin (plugin.json and skills/) into a package. Skills are
 * copied unchanged; everything else is skipped and reported.
 */
import { lstat, readdir, readFile, rmdir } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { limits, MIB, PACKAGE_FILES_MAX } from '../contract/limits.ts';
import { CommandError } from './failure.ts';
import { writeNewFiles } from './new-file.ts';
import { NAME_MAX_CHARS, parseJsonFile, toDisplayText } from './package-folder.ts';

const BYTES_MAX = 256 * MIB;
const DEPTH_MAX = 12;
const SKILL_NAME = /^[a-z0-9]+(-[a-z0-9]+)*$/;
const DESCRIPTION_MAX_CHARS = 280;

interface ImportedFile {
  /** Path in the package, with `/`. */
  readonly path: string;
  /** Path of the source file; null if the content is `text`. */
  readonly at: string | null;
  readonly text: string | null;
}
interface SkillImport {
  readonly name: string;
  readonly skills: readonly string[];
  readonly files: readonly ImportedFile[];
  /** One sentence for each file or folder that is skipped. */
  readonly notes: readonly string[];
}

/**
 * Reads skills without following symbolic links.
 *
 * @param folder of skills, of one skill, or an Agent Plugin
 * @throws CommandError
 */
export async function readSkillFolder(folder: string): Promise<SkillImport> {
  const root = resolve(folder);
  const found = await lstat(root).catch(() => null);
  if (!found?.isDirectory()) throw createError(`${folder} is not a folder. Pass the folder with the skills.`);
  const manifest = await readManifest(root);
  const notes: string[] = [];
  const skillPaths = await findSkills(root, manifest !== null, notes);
  if (skillPaths.length === 0) {
    throw createError(`${folder} has no skills. A skill is a folder with a SKILL.md.`);
  }
  if (skillPaths.length > limits.skills) {
    throw createError(`${folder} has ${skillPaths.length} skills. A package can have ${limits.skills}.`);
  }
  const files: ImportedFile[] = [];
  const progress = { filesLeft: PACKAGE_FILES_MAX, bytesLeft: BYTES_MAX, notes };
  for (const path of skillPaths) {
    files.push(...(await readTree(path, `skills/${basename(path)}`, progress, DEPTH_MAX)));
  }
  const skills = skillPaths.map((path) => basename(path)).sort();
  const name = toDisplayText(manifest?.name ?? basename(root), NAME_MAX_CHARS) || 'Skills';
  const description = toDisplayText(manifest?.description ?? `Skills: ${skills.join(', ')}.`, DESCRIPTION_MAX_CHARS);
  return { name, skills, notes, files: [...createPackageFiles(name, description, skills), ...files] };
}

/**
 * Writes an import as a package. If that fails, the folder stays empty, so that the next attempt accepts it.
 *
 * @throws CommandError if the folder is not empty
 */
export async function writeSkillPackage({ files }: SkillImport, folder: string): Promise<void> {
  const present = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw createError(`${folder} cannot be written. Pass a new folder.`);
  });
  if (present.length > 0) throw createError(`${folder} is not empty. Pass a new folder.`);
  const contents = files.map(({ path, at, text }) => ({
    path,
    read: () => (at === null ? (text ?? '') : readFile(at)),
  }));
  try {
    await writeNewFiles(folder, contents, 'wx');
  } catch (error) {
    // Deepest first. One with a file of another program stays.
    for (const path of listFolders(files).reverse()) await rmdir(join(folder, path)).catch(() => undefined);
    throw error;
  }
}

/** Lists the folders of the files, each after those above it. */
function listFolders(files: SkillImport['files']): string[] {
  const folders = new Set<string>();
  for (const { path } of files)
    for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) folders.add(folder);
  return [...folders].sort();
}

async function findSkills(root: string, isPlugin: boolean, notes: string[]): Promise<string[]> {
  if (!isPlugin && (await isFile(join(root, 'SKILL.md')))) return [checkSkillName(root)];
  const skillsFolder = join(root, 'skills');
  const hasSkillsFolder = (await lstat(skillsFolder).catch(() => null))?.isDirectory() === true;
  const folder = hasSkillsFolder ? skillsFolder : root;
  const isManifest = (at: string): boolean => isPlugin && at === join(root, 'plugin.json');
  if (hasSkillsFolder) {
    for (const name of (await readdir(root)).sort())
      if (name !== 'skills' && !isManifest(join(root, name)))
        notes.push(describeSkipped(name, 'only the folder skills is imported'));
  }
  const found: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const at = join(folder, entry.name);
    const isHidden = entry.name.startsWith('.');
    if (!isHidden && entry.isSymbolicLink())
      throw createError(`${at} is a symbolic link. Replace it with a file or a folder.`);
    const isFolder = entry.isDirectory();
    if (!isHidden && isFolder && (await isFile(join(at, 'SKILL.md')))) found.push(checkSkillName(at));
    else if (!isManifest(at))
      notes.push(describeSkipped(relative(root, at), isFolder ? 'it has no SKILL.md' : 'it belongs to no skill'));
  }
  return found.sort();
}

const HIDDEN = 'names that begin with a dot are left out';

/** @param reason for names that have no reason of their own, as the end of a sentence */
function describeSkipped(path: string, reason: string): string {
  const name = basename(path);
  if (name.startsWith('.')) return `Skipped ${path}: ${HIDDEN}.`;
  if (name === 'mcp.json') return `Skipped ${path}: a plugin implements tools in its own code, not in a server.`;
  return `Skipped ${path}: ${reason}.`;
}

function checkSkillName(path: string): string {
  const name = basename(path);
  if (SKILL_NAME.test(name) && name.length <= NAME_MAX_CHARS) return path;
  throw createError(
    `${path}: the folder of a skill must have the name in its SKILL.md: lower-case letters, digits and single hyphens. Rename it.`,
  );
}

async function readTree(
  folder: string,
  path: string,
  progress: { filesLeft: number; bytesLeft: number; readonly notes: string[] },
  depth: number,
): Promise<ImportedFile[]> {
  if (depth === 0) throw createError(`${folder} is too deep. A skill can have ${DEPTH_MAX} levels of folders.`);
  const files: ImportedFile[] = [];
  for (const name of await readdir(folder)) {
    if (name.startsWith('.')) {
      progress.notes.push(`Skipped ${path}/${name}: ${HIDDEN}.`);
      continue;
    }
    const at = join(folder, name);
    const entry = await lstat(at);
    if (entry.isDirectory()) {
      files.push(...(await readTree(at, `${path}/${name}`, progress, depth - 1)));
      continue;
    }
    if (!entry.isFile()) throw createError(`${at} is a symbolic link or a device. Replace it with a file.`);
    progress.filesLeft -= 1;
    progress.bytesLeft -= entry.size;
    if (progress.filesLeft < 0) throw createError(`The skills have more than ${PACKAGE_FILES_MAX} files.`);
    if (progress.bytesLeft < 0) throw createError(`The skills have more than ${BYTES_MAX} bytes.`);
    files.push({ path: `${path}/${name}`, at, text: null });
  }
  return files;
}

const createError = (message: string): CommandError => new CommandError('failed', message);

const isFile = async (path: string): Promise<boolean> => (await lstat(path).catch(() => null))?.isFile() === true;

/** Reads the plugin.json of an Agent Plugin. Null: the folder has no plugin.json. @throws CommandError */
async function readManifest(root: string): Promise<{ name?: string; description?: string } | null> {
  const at = join(root, 'plugin.json');
  if (!(await isFile(at))) return null;
  const { size } = await lstat(at);
  if (size > MIB) throw createError(`${at} has more than ${MIB} bytes.`);
  try {
    const { name, description } = parseJsonFile(await readFile(at, 'utf8')) as Record<string, unknown>;
    return {
      ...(typeof name === 'string' ? { name } : {}),
      ...(typeof description === 'string' ? { description } : {}),
    };
  } catch {
    throw createError(`${at} is not a JSON object. Fix it.`);
  }
}

function createPackageFiles(name: string, description: string, skills: readonly string[]): ImportedFile[] {
  // Every JSON string is a YAML string.
  const head = `---\nname: ${JSON.stringify(name)}\ndescription: ${JSON.stringify(description)}\n---\n`;
  const list = skills.map((skill) => `- \`${skill}\``).join('\n');
  return [
    { path: 'readme.md', at: null, text: `${head}\n# ${name}\n\n${description}\n\n${list}\n` },
    { path: 'index.ts', at: null, text: '// Skills need no code.\n' },
  ];
}
