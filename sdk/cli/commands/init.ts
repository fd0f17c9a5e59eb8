/** `bulkhead init`: a package to start from. */
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import type { Command, Given } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { slugFault, slugFrom } from '../package-folder.ts';
import { filesOf, type Template, templates } from '../templates.ts';

interface Wanted {
  readonly template: Template;
  readonly name: string;
}

export const init: Command = {
  name: 'init',
  summary: 'Write a new package',
  args: [{ name: '[folder]', doc: 'where; made if it is not there. Else this one' }],
  options: [
    { flags: '-t, --template <template>', doc: templates.map(({ name, doc }) => `${name}: ${doc}`).join('; ') },
    { flags: '--name <name>', doc: 'what people read in the catalog' },
    { flags: '--slug <slug>', doc: 'its name in addresses and tool names; else made of the folder’s' },
  ],
  examples: ['init weather --template tool', 'init --template guard --name "House rules"'],
  async run(context, given) {
    const folder = resolve(context.folder, given.args[0] ?? '.');
    const slug = given.text('slug') ?? slugFrom(basename(folder));
    const fault = slugFault(slug);
    if (fault) throw new CommandError('usage', `“${slug}” ${fault}.`, { exit: 'usage' });
    const { template, name } = await decide(context, given, slug);
    const files = filesOf(template, name, slug);
    await refuseOverwriting(folder, Object.keys(files));
    await mergePackageJson(folder, files);
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text);
    }
    const { output } = context;
    const place = relative(context.folder, folder);
    output.say(`Wrote ${Object.keys(files).join(', ')}${place === '' ? '' : ` to ${place}/`}`);
    if (place !== '') output.say(`Next: cd ${place}`);
    output.say('Next: bulkhead check, then bulkhead publish');
    return { folder, slug, name, template: template.name, files: Object.keys(files) };
  },
};

async function decide(context: Context, given: Given, slug: string): Promise<Wanted> {
  const said = given.text('template');
  const found = templates.find(({ name }) => name === said);
  if (said !== undefined && !found) {
    const names = templates.map(({ name }) => name).join(', ');
    throw new CommandError('usage', `There is no template “${said}”; there are ${names}.`, { exit: 'usage' });
  }
  const title = slug.replaceAll('-', ' ').replace(/^./, (first) => first.toUpperCase());
  if (!context.output.isTerminal || (found && given.text('name'))) {
    return { template: found ?? fallback, name: given.text('name') ?? title };
  }
  const { isCancel, select, text } = await import('@clack/prompts');
  const options = templates.map(({ name, doc }) => ({ value: name, label: name, hint: doc }));
  const chosen = found?.name ?? (await select({ message: 'What shall it do?', options, initialValue: 'tool' }));
  const name = given.text('name') ?? (await text({ message: 'What is it called?', initialValue: title }));
  if (isCancel(chosen) || isCancel(name)) throw new DOMException('Interrupted', 'AbortError');
  return { template: templates.find((one) => one.name === chosen) ?? fallback, name };
}

const fallback = templates.find(({ name }) => name === 'tool') as Template;

/** What an author wrote is never lost. package.json and .gitignore may be there: an SDK was installed first. */
async function refuseOverwriting(folder: string, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    if (path === 'package.json' || path === '.gitignore') continue;
    if (!(await stat(join(folder, path)).catch(() => null))) continue;
    throw new CommandError('exists', `${join(folder, path)} is there already: name another folder, or move it away.`);
  }
}

async function mergePackageJson(folder: string, files: Record<string, string>): Promise<void> {
  const [theirs, ignored] = await Promise.all(
    ['package.json', '.gitignore'].map((name) => readFile(join(folder, name), 'utf8').catch(() => null)),
  );
  if (ignored !== null) delete files['.gitignore'];
  if (theirs == null) return;
  try {
    const { bulkhead } = JSON.parse(files['package.json'] ?? '') as { bulkhead: object };
    files['package.json'] = `${JSON.stringify({ ...JSON.parse(theirs), bulkhead }, null, 2)}\n`;
  } catch {
    throw new CommandError('failed', `${join(folder, 'package.json')} is no JSON: mend it first.`);
  }
}
