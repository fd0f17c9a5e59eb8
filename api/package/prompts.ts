/** Reads prompt commands (`commands/*.md`) and skills (`skills/<name>/SKILL.md`) of a package. */
import { z } from 'zod';
import { limits } from '../../sdk/contract/limits.ts';
import { label, refuseHidden } from '../../sdk/contract/manifest.ts';
import { surfaceName } from '../../sdk/contract/payloads.ts';
import { readFrontmatter } from './frontmatter.ts';
import { invalidAt } from './invalid-package.ts';
import { checkPage, type Package, readText } from './package-files.ts';

export const PROMPT_DESCRIPTION_MAX_CHARS = 1024;
/** The files of a skill that agents read as instructions. */
const PAGE = /\.(md|txt)$/i;

export interface Prompt {
  readonly name: string;
  readonly description: string;
  /** Path of the file with the text. */
  readonly path: string;
}

const commandHead = z.strictObject({ description: label(PROMPT_DESCRIPTION_MAX_CHARS).default('') });
/** The Agent Skills format. Ignores unknown fields, which are for other agents. */
const skillHead = (folder: string) =>
  z.looseObject({
    name: z
      .string()
      .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, {
        error: 'must be lower-case letters, digits and single hyphens',
        abort: true,
      })
      .max(64)
      .refine((name) => name === folder, `must be “${folder}”, the name of the skill’s folder`),
    description: z.string().min(1).max(PROMPT_DESCRIPTION_MAX_CHARS).superRefine(refuseHidden('lines')),
  });

/** Reads the prompt commands of a package, sorted by path. @throws Problem `invalid_package` */
export async function readCommands({ files }: Package, loopKey: string): Promise<Prompt[]> {
  const commandFiles = files.filter((file) => /^commands\/[^/]+\.md$/.test(file.path));
  if (commandFiles.length > limits.commands) throw createTooMany('commands/', limits.commands);
  const commands: Prompt[] = [];
  for (const file of commandFiles) {
    const name = file.path.slice('commands/'.length, -'.md'.length);
    const fault = surfaceName.safeParse(name).error?.issues[0]?.message;
    if (fault) throw invalidAt({ path: file.path, message: `The file name is the name of the command: it ${fault}.` });
    const text = await readText(file, loopKey);
    const { data, body } = readFrontmatter({ path: file.path, text }, commandHead, 'optional');
    if (body.trim() === '') throw createNoText(file.path, text, 'The command has no text.');
    commands.push({ name, description: data.description, path: file.path });
  }
  return commands;
}

/** Reads the skills of a package, sorted by path. @throws Problem `invalid_package` */
export async function readSkills({ files }: Package, loopKey: string): Promise<Prompt[]> {
  const folders = new Set(files.flatMap((file) => /^skills\/([^/]+)\//.exec(file.path)?.[1] ?? []));
  if (folders.size > limits.skills) throw createTooMany('skills/', limits.skills);
  const skills: Prompt[] = [];
  for (const folder of folders) {
    const path = `skills/${folder}/SKILL.md`;
    const file = files.find((candidate) => candidate.path === path);
    if (!file) {
      const near = files.find((candidate) => candidate.path.toLowerCase() === path.toLowerCase());
      const hint = near ? ` There is “${near.path}”: it must be called SKILL.md.` : '';
      throw invalidAt({ path: `skills/${folder}`, message: `The skill has no SKILL.md.${hint}` });
    }
    const text = await readText(file, loopKey);
    const { data, body } = readFrontmatter({ path, text }, skillHead(folder));
    if (body.trim() === '') throw createNoText(path, text, 'The skill has no text.');
    const pages = files.filter((other) => other.path.startsWith(`skills/${folder}/`) && PAGE.test(other.path));
    for (const page of pages) await checkPage(page, loopKey);
    skills.push({ name: data.name, description: data.description, path });
  }
  return skills;
}

/** Creates the problem of a file without text after its frontmatter. Its location is the last line of the frontmatter. */
const createNoText = (path: string, text: string, message: string) =>
  invalidAt({ path, line: text.trimEnd().split('\n').length, message });
const createTooMany = (path: string, most: number) => invalidAt({ path, message: `holds more than ${most} entries.` });
