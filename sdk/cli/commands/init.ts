/** `bulkhead init`: writes a new package from a template. */
import { readdir, readFile } from 'node:fs/promises';
import { basename, join, posix, relative, resolve } from 'node:path';
import { label } from '../../contract/manifest.ts';
import type { Command, ParsedArgs } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { writeNewFiles } from '../new-file.ts';
import {
  describeNoSlug,
  findSlugFault,
  NAME_MAX_CHARS,
  parseJsonFile,
  toDisplayText,
  toSlug,
} from '../package-folder.ts';
import { renderTemplate, type Template, templates } from '../templates.ts';
import { askForText, askToChoose } from '../terminal-prompts.ts';
import { quoteForShell } from '../terminal-text.ts';

export const init: Command = {
  name: 'init',
  summary: 'Write a new package',
  args: [{ name: '[folder]', doc: 'folder to create (default: the current folder)' }],
  options: [
    { flags: '-t, --template <template>', doc: templates.map(({ name, doc }) => `${name}: ${doc}`).join('; ') },
    { flags: '--name <name>', doc: 'name in the catalog' },
    { flags: '--slug <slug>', doc: 'name in addresses and tool names (default: from the folder’s name)' },
  ],
  examples: ['init weather --template tool', 'init --template guard --name "House rules"'],
  async run(context, args) {
    const folder = resolve(context.folder, args.positional[0] ?? '.');
    const slug = args.text('slug') ?? toSlug(basename(folder));
    if (slug === null)
      throw new CommandError(
        'usage',
        `${describeNoSlug(basename(folder))} Pass one, such as \`--slug rain-forecast\`.`,
      );
    const fault = findSlugFault(slug);
    if (fault) throw new CommandError('usage', `“${slug}” ${fault}.`);
    const givenName = args.text('name');
    const nameFault = givenName === undefined ? null : findNameFault(givenName);
    if (nameFault) throw new CommandError('usage', nameFault);
    const { template, name } = await chooseTemplate(
      context,
      args,
      toTitle(args.text('slug') ?? basename(folder), slug),
    );
    const files = renderTemplate(template, name, slug);
    await refuseOverwriting(folder, Object.keys(files));
    const change = await mergePackageJson(folder, files, slug);
    await writeFiles(folder, files);
    const { output } = context;
    const place = relative(context.folder, folder);
    const created = Object.keys(files).filter((path) => path !== 'package.json' || change === null);
    output.printLine(`Wrote ${created.join(', ')}${place === '' ? '' : ` to ${place}/`}`);
    if (change !== null) output.printLine(change);
    if (args.text('slug') === undefined && slug !== basename(folder))
      output.printLine(
        `The slug is ${slug}. To choose another, change bulkhead.slug in package.json before you publish.`,
      );
    if (place !== '') output.printLine(`Next: cd ${quoteForShell(place)}`);
    output.printLine('Next: bulkhead check, then bulkhead publish');
    if (template.whenInstalled) output.printLine(`When it is installed: ${template.whenInstalled(slug)}`);
    return { folder, slug, name, template: template.name, files: Object.keys(files) };
  },
};

/** Writes the files, or none: those of an attempt that failed would make the next one refuse to overwrite them. */
function writeFiles(folder: string, files: Record<string, string>): Promise<void> {
  const created = Object.keys(files).filter((path) => path !== 'package.json');
  // Last, because it may be the user's own, which is changed: if another file fails, it stays as it was.
  const paths = 'package.json' in files ? [...created, 'package.json'] : created;
  return writeNewFiles(
    folder,
    paths.map((path) => ({ path, read: () => files[path] ?? '' })),
    'w',
  );
}

async function chooseTemplate(
  context: Context,
  args: ParsedArgs,
  title: string,
): Promise<{ template: Template; name: string }> {
  const templateName = args.text('template');
  const found = templates.find(({ name }) => name === templateName);
  if (templateName !== undefined && !found) {
    const names = templates.map(({ name }) => name).join(', ');
    throw new CommandError('usage', `There is no template “${templateName}”. Use one of ${names}.`);
  }
  if (!context.canAsk) return { template: found ?? DEFAULT_TEMPLATE, name: args.text('name') ?? title };
  const options = templates.map((template) => ({ value: template, label: template.name, hint: template.doc }));
  const template = found ?? (await askToChoose('What should the plugin do?', options, DEFAULT_TEMPLATE));
  const name = args.text('name') ?? (await askForText('What is its name?', title, findNameFault));
  return { template, name };
}

/** @returns why the check of a package would refuse the name, as a sentence; null if it is valid */
function findNameFault(name: string): string | null {
  const fault = label(NAME_MAX_CHARS).safeParse(name).error?.issues[0]?.message;
  return fault === undefined ? null : `The name ${fault}.`;
}

/** `word-count` → `Word count`; a name that is no slug stays as it is. */
function toTitle(name: string, slug: string): string {
  const shown = toDisplayText(name, NAME_MAX_CHARS) || slug;
  if (findSlugFault(shown) !== null) return shown;
  return shown.replaceAll('-', ' ').replace(/^./, (first) => first.toUpperCase());
}

const DEFAULT_TEMPLATE = templates.find(({ name }) => name === 'tool') as Template;

/** package.json and .gitignore may exist already, because the SDK is usually installed first. */
async function refuseOverwriting(folder: string, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    if (path === 'package.json' || path === '.gitignore') continue;
    const found = await findIgnoringCase(folder, path);
    if (found === null) continue;
    const beside = found === path ? '' : `, and a package cannot have it beside ${path}`;
    throw new CommandError(
      'exists',
      `${join(folder, found)} already exists${beside}. Pass another folder, or move the file.`,
    );
  }
}

/** @returns the path, or the part of it that is spelled in other letter case; null if the folder has neither */
async function findIgnoringCase(folder: string, path: string): Promise<string | null> {
  let found = '';
  for (const wanted of path.split('/')) {
    const names: string[] = await readdir(join(folder, found)).catch(() => []);
    // A file system that distinguishes case may have several spellings.
    const name = names.includes(wanted) ? wanted : names.find((each) => each.toLowerCase() === wanted.toLowerCase());
    if (name === undefined) return null;
    found = posix.join(found, name);
    if (name !== wanted) return found;
  }
  return found;
}

/** A file that is there and cannot be read must not be replaced. @throws other errors */
function ignoreMissing(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
  throw error;
}

/** Sets the slug in a package.json that exists. @returns the change as a sentence; null if the file is new or stays as it is */
async function mergePackageJson(folder: string, files: Record<string, string>, slug: string): Promise<string | null> {
  const [packageJson, gitignore] = await Promise.all(
    ['package.json', '.gitignore'].map((name) => readFile(join(folder, name), 'utf8').catch(ignoreMissing)),
  );
  if (gitignore !== null) delete files['.gitignore'];
  if (packageJson == null) return null;
  let own: { bulkhead?: { slug?: unknown } } | null;
  try {
    own = parseJsonFile(packageJson) as typeof own;
  } catch {
    throw new CommandError('failed', `${join(folder, 'package.json')} is not valid JSON. Fix it first.`);
  }
  const before = own?.bulkhead?.slug;
  if (before === slug) {
    delete files['package.json'];
    return null;
  }
  files['package.json'] = `${JSON.stringify({ ...own, bulkhead: { ...own?.bulkhead, slug } }, null, 2)}\n`;
  if (before === undefined) return `Added bulkhead.slug “${slug}” to package.json`;
  return `Changed bulkhead.slug in package.json from “${before}” to “${slug}”`;
}
