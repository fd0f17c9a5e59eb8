/** `bulkhead import-skills`: converts a folder of Agent Skills or an Agent Plugin into a package. */
import { basename, relative, resolve } from 'node:path';
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { describeNoSlug, toSlug } from '../package-folder.ts';
import { readSkillFolder, writeSkillPackage } from '../skill-import.ts';
import { quoteForShell, toOneLine } from '../terminal-text.ts';

export const importSkills: Command = {
  name: 'import-skills',
  summary: 'Convert a folder of Agent Skills or an Agent Plugin into a package',
  args: [
    { name: '<folder>', doc: 'folder of skills, of one skill, or of an Agent Plugin' },
    { name: '[into]', doc: 'new folder for the package (default: named after the skills)' },
  ],
  examples: ['import-skills ~/skills', 'import-skills ./team-skills team-plugin'],
  async run({ folder: here, output }, { positional: [from = '.', into] }) {
    const found = await readSkillFolder(resolve(here, from));
    const target = resolve(here, into ?? nameFolder(basename(found.name)));
    await writeSkillPackage(found, target);
    const place = relative(here, target) || '.';
    for (const note of found.notes) output.printNote(toOneLine(note));
    output.printLine(`Wrote ${found.files.length} files to ${place}/ with the skills ${found.skills.join(', ')}.`);
    output.printLine(`Next: cd ${quoteForShell(place)}, then bulkhead check, then bulkhead publish`);
    return { folder: target, name: found.name, skills: found.skills, notes: found.notes };
  },
};

/** @throws CommandError if the name of the skills gives no slug */
function nameFolder(name: string): string {
  const slug = toSlug(name);
  if (slug !== null) return slug;
  const advice = 'Name the folder for the package: `bulkhead import-skills <folder> rain-forecast`.';
  throw new CommandError('usage', `${describeNoSlug(name)} ${advice}`);
}
