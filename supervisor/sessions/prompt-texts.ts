/** Texts of a package that need no code: `commands/*.md` and `skills/<name>/SKILL.md`, checked at publish. */
import { z } from 'zod';
import type { Blobs } from '../../db/files/blobs.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';

/** Where a prompt command wants its input; without the mark the input follows the prompt. */
const INPUT_MARK = '$ARGUMENTS';

/** What the version's record says of them; anything else of it is not for here. */
const described = z.array(z.object({ name: z.string(), description: z.string().catch('') })).catch([]);
const discovered = z.object({ commands: described, skills: described }).catch({ commands: [], skills: [] });

export interface PromptText {
  readonly name: string;
  readonly description: string;
  /** The blob that holds the file. */
  readonly sha256: string;
}

/** The prompt commands of an installation's version. */
export const promptCommands = (plugin: InstalledPlugin): PromptText[] =>
  listTexts(plugin, 'commands', /^commands\/([^/]+)\.md$/);

/** The skills of an installation's version. */
export const skills = (plugin: InstalledPlugin): PromptText[] =>
  listTexts(plugin, 'skills', /^skills\/([^/]+)\/SKILL\.md$/);

function listTexts(plugin: InstalledPlugin, kind: 'commands' | 'skills', path: RegExp): PromptText[] {
  const known = new Map(discovered.parse(plugin.discovered)[kind].map((row) => [row.name, row.description]));
  return Object.entries(plugin.texts).flatMap(([file, sha256]) => {
    const name = path.exec(file)?.[1];
    return name === undefined ? [] : [{ name, description: known.get(name) ?? '', sha256 }];
  });
}

/** The text of a prompt, which publish keeps short, below the frontmatter. */
export const readText = async (blobs: Blobs, text: PromptText): Promise<string> =>
  belowFrontmatter((await blobs.read(text.sha256)).toString('utf8'));

export function belowFrontmatter(text: string): string {
  const whole = text.replace(/^\uFEFF/, '');
  return whole.replace(/^---[ \t]*\r?\n[\s\S]*?^---[ \t]*(?:\r?\n|$)/m, '').trimStart();
}

/** A prompt with its input in it. */
export function fillPrompt(prompt: string, input: string): string {
  // A function, because `$&` and the like in the input are no patterns.
  const filled = prompt.includes(INPUT_MARK)
    ? prompt.replaceAll(INPUT_MARK, () => input)
    : [prompt, input].filter((part) => part !== '').join('\n\n');
  return filled.slice(0, TEXT_MAX_CHARS);
}
