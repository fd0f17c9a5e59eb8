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

/** The text of a Markdown file below its frontmatter, which a prompt command may omit. */
export function belowFrontmatter(text: string): string {
  const whole = text.replace(/^\uFEFF/, '');
  if (!/^---[ \t]*\r?\n/.test(whole)) return whole.trimStart();
  const below = whole.slice(whole.indexOf('\n') + 1);
  const end = /^---[ \t]*(?:\r?\n|$)/m.exec(below);
  return (end ? below.slice(end.index + end[0].length) : whole).trimStart();
}

/** Replaces each placeholder of a prompt by the input. The result is cut to `TEXT_MAX_CHARS`. */
export function fillPrompt(prompt: string, input: string): string {
  const [first = '', ...rest] = prompt.split(INPUT_MARK);
  if (rest.length === 0) return cut([prompt, input].filter((part) => part !== '').join('\n\n'));
  let filled = first;
  for (const part of rest) {
    // A prompt may have so many placeholders that the whole text would not fit into memory.
    if (filled.length > TEXT_MAX_CHARS) break;
    filled += input + part;
  }
  return cut(filled);
}

/** The cut may separate the halves of a character. */
const cut = (text: string): string =>
  text.length > TEXT_MAX_CHARS ? text.slice(0, TEXT_MAX_CHARS).toWellFormed() : text;
