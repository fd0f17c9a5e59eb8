/** `bulkhead import-skills`: a folder of Agent Skills, or an Agent Plugin, as a package of one's own. */
import { basename, relative, resolve } from 'node:path';
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import { slugFrom } from '../package-folder.ts';
import { ImportError, readSkillFolder, writeSkillPackage } from '../skill-import.ts';

export const importSkills: Command = {
  name: 'import-skills',
  summary: 'Make a package of a folder of Agent Skills, or of an Agent Plugin',
  args: [
    { name: '<folder>', doc: 'of skills, of one skill, or of an Agent Plugin' },
    { name: '[into]', doc: 'where the package goes: a new folder. Else one of its name in this one' },
  ],
  examples: ['import-skills ~/skills', 'import-skills ./team-skills team-plugin'],
  async run({ folder: here, output }, { args: [from = '.', into] }) {
    try {
      const found = await readSkillFolder(resolve(here, from));
      const target = resolve(here, into ?? slugFrom(basename(found.name)));
      await writeSkillPackage(found, target);
      const place = relative(here, target) || '.';
      for (const note of found.notes) output.note(note);
      output.say(`Wrote ${found.files.length} files to ${place}/, with the skills ${found.skills.join(', ')}.`);
      output.say(`Next: cd ${place}, then bulkhead check, then bulkhead publish`);
      return { folder: target, name: found.name, skills: found.skills, notes: found.notes };
    } catch (error) {
      if (error instanceof ImportError) throw new CommandError('failed', error.message);
      throw error;
    }
  },
};
