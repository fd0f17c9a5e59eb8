/** Reads prompt commands (`commands/*.md`) and skills (`skills/<name>/SKILL.md`) of a package. */
import { z } from 'zod';
import { label, refuseHidden } from '../../sdk/contract/manifest.ts';
import { surfaceName } from '../../sdk/contract/payloads.ts';
import { readFrontmatter } from './frontmatter.ts';
import { invalidAt } from './invalid-package.ts';
import { checkPage, type Package, readText } from './package-files.ts';

/** Registered commands and tools have the same limit. */
export const PROMPTS_MAX = 128;
export const PROMPT_DESCRIPTION_MAX_CHARS = 1024;
/** Pages that a skill refers to, as instructions for the agent. */
const PAGE = /\.(md|txt)$/i;

export interface Prompt {
  readonly name: string;
  readonly description: string;
  /** The file with its text. */
  readonly path: string;
}

const commandHead = z.strictObject({ description: label(PROMPT_DESCRIPTION_MAX_CHARS).default('') });
/** The Agent Skills format; unknown fields are for other agents and ignored. */
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

/** Reads the prompt commands of a package, by name. @throws Problem `invalid_package` */
export async function readCommands(of: Package): Promise<Prompt[]> {
  const files = of.files.filter((file) => /^commands\/[^/]+\.md$/.test(file.path));
  if (files.length > PROMPTS_MAX) throw tooMany('commands/');
  const commands: Prompt[] = [];
  for (const file of files) {
    const name = file.path.slice('commands/'.length, -'.md'.length);
    const fault = surfaceName.safeParse(name).error?.issues[0]?.message;
    if (fault) throw invalidAt({ path: file.path, message: `The file name is the name of the command: it ${fault}.` });
    const text = await readText(file);
    const { data, body } = readFrontmatter({ path: file.path, text }, commandHead, 'optional');
    if (body.trim() === '') throw withoutText(file.path, text, 'The command has no text.');
    commands.push({ name, description: data.description, path: file.path });
  }
  return commands;
}

/** Reads the skills of a package, by name. @throws Problem `invalid_package` */
export async function readSkills(of: Package): Promise<Prompt[]> {
  const folders = new Set(of.files.flatMap((file) => /^skills\/([^/]+)\//.exec(file.path)?.[1] ?? []));
  if (folders.size > PROMPTS_MAX) throw tooMany('skills/');
  const skills: Prompt[] = [];
  for (const folder of folders) {
    const path = `skills/${folder}/SKILL.md`;
    const file = of.files.find((candidate) => candidate.path === path);
    if (!file) {
      const near = of.files.find((candidate) => candidate.path.toLowerCase() === path.toLowerCase());
      const hint = near ? ` There is “${near.path}”: it must be called SKILL.md.` : '';
      throw invalidAt({ path: `skills/${folder}`, message: `The skill has no SKILL.md.${hint}` });
    }
    const text = await readText(file);
    const { data, body } = readFrontmatter({ path, text }, skillHead(folder));
    if (body.trim() === '') throw withoutText(path, text, 'The skill has no text.');
    const pages = of.files.filter((other) => other.path.startsWith(`skills/${folder}/`) && PAGE.test(other.path));
    for (const page of pages) await checkPage(page);
    skills.push({ name: data.name, description: data.description, path });
  }
  return skills;
}

/** @param text of a file whose last line should be followed by more */
const withoutText = (path: string, text: string, message: string) =>
  invalidAt({ path, line: text.trimEnd().split('\n').length, message });
const tooMany = (path: string) => invalidAt({ path, message: `holds more than ${PROMPTS_MAX} entries.` });
