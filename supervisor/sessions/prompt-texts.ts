/** Reads prompt commands (`commands/*.md`) and skills (`skills/<name>/SKILL.md`), which were validated at publish. */
import { z } from 'zod';
import type { Blobs } from '../../db/files/blobs.ts';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { TEXT_MAX_CHARS } from '../../sdk/contract/payloads.ts';

/** Placeholder of a prompt command's input; without it, the input follows the prompt. */
const INPUT_MARK = '$ARGUMENTS';

/** The needed fields of a text in the version's record. */
const described = z.array(z.object({ name: z.string(), description: z.string().catch('') })).catch([]);
const discovered = z.object({ commands: described, skills: described }).catch({ commands: [], skills: [] });

export interface PromptText {
  readonly name: string;
  readonly description: string;
  /** The blob of the file. */
  readonly sha256: string;
}

export const promptCommands = (plugin: InstalledPlugin): PromptText[] =>
  listTexts(plugin, 'commands', /^commands\/([^/]+)\.md$/);

export const skills = (plugin: InstalledPlugin): PromptText[] =>
  listTexts(plugin, 'skills', /^skills\/([^/]+)\/SKILL\.md$/);

function listTexts(plugin: InstalledPlugin, kind: 'commands' | 'skills', path: RegExp): PromptText[] {
  const known = new Map(discovered.parse(plugin.discovered)[kind].map((row) => [row.name, row.description]));
  return Object.entries(plugin.texts).flatMap(([file, sha256]) => {
    const name = path.exec(file)?.[1];
    return name === undefined ? [] : [{ name, description: known.get(name) ?? '', sha256 }];
  });
}

export const readText = async (blobs: Blobs, text: PromptText): Promise<string> =>
  belowFrontmatter((await blobs.read(text.sha256)).toString('utf8'));

export function belowFrontmatter(text: string): string {
  const whole = text.replace(/^\uFEFF/, '');
  return whole.replace(/^---[ \t]*\r?\n[\s\S]*?^---[ \t]*(?:\r?\n|$)/m, '').trimStart();
}

export function fillPrompt(prompt: string, input: string): string {
  // A function, because `$&` in the input would be a replacement pattern.
  const filled = prompt.includes(INPUT_MARK)
    ? prompt.replaceAll(INPUT_MARK, () => input)
    : [prompt, input].filter((part) => part !== '').join('\n\n');
  return filled.slice(0, TEXT_MAX_CHARS);
}
