/** `bulkhead publish`: checks the package, proposes a version number and publishes it. */
import { describeCapability } from '../../contract/capabilities.ts';
import { findLatestVersion, validateSemVer } from '../../contract/version-numbers.ts';
import { BulkheadError, hasCode } from '../../session/transport.ts';
import type { Command, ParsedArgs } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, toFailure } from '../failure.ts';
import type { CheckedPackage } from '../local-tools.ts';
import { findPlugin } from '../lookup.ts';
import { listNewlyRequired, listRequested, proposeVersion } from '../next-version.ts';
import type { Output } from '../output.ts';
import { findSlugFault, readPackageFolder } from '../package-folder.ts';
import { hashFiles, uploadVersion } from '../package-upload.ts';
import { formatReach } from '../reach-text.ts';
import type { Rest } from '../rest.ts';
import type { Discovered, Plugin, PluginDetail, Version } from '../rest-types.ts';
import { askToConfirm } from '../terminal-prompts.ts';

export const publish: Command = {
  name: 'publish',
  summary: 'Publish the package as a new version',
  args: [{ name: '[folder]', doc: 'folder with readme.md and index.ts (default: the current folder)' }],
  options: [
    { flags: '--version <semver>', doc: 'version number (default: the next one, by what changed)' },
    { flags: '--dry-run', doc: 'show what would be published, without publishing' },
    { flags: '--list', doc: 'list the plugin in the catalog afterwards' },
    { flags: '--zip', doc: 'always upload a zip' },
    { flags: '--slug <slug>', doc: 'slug of the plugin (default: from package.json or the folder’s name)' },
    { flags: '-y, --yes', doc: 'do not ask for confirmation' },
  ],
  examples: ['publish', 'publish --dry-run', 'publish --version 2.0.0-rc.1 --yes --json'],
  async run(context, args) {
    const { folder, output, outputIds } = context;
    const { slug, files, warnings } = await readPackageFolder(folder, args.positional[0], args.text('slug'), outputIds);
    const fault = findSlugFault(slug);
    if (fault) throw new CommandError('usage', `“${slug}” ${fault}. Pass one with \`--slug\`.`);
    for (const warning of warnings) output.printWarning(warning);
    // Before the files are read: without these two, it is perhaps the wrong folder, with any amount of data.
    await context.localTools.requireLayout(files);
    const wanted = args.text('version');
    const versionFault = wanted === undefined ? null : validateSemVer(wanted);
    if (versionFault !== null) throw new CommandError('usage', `\`--version\`: “${wanted}” ${versionFault}.`);
    // Before the check, so that a missing sign-in is reported immediately.
    const rest = await context.getRest();
    const checkedHash = await hashFiles(files, context.signal);
    const found = await context.localTools.check(files, slug, context.signal);
    const plugin = await findPlugin(rest, slug);
    const versions = plugin?.versions ?? [];
    const allVersions = [...versions, ...(plugin?.leftOutVersions ?? [])];
    // The service refuses it, too, but not for `--dry-run`.
    if (wanted !== undefined && allVersions.some(({ semVer }) => semVer === wanted))
      throw createTakenError(slug, wanted);
    if (plugin === null && args.flag('dryRun')) await requireFreeSlug(rest, slug);
    const latest = findLatestVersion(versions);
    if (plugin && latest && wanted === undefined && latest.sourceSha256 === found.sourceSha256) {
      if (args.flag('list') && plugin.visibility !== 'listed') return listUnchanged(context, args, plugin, latest);
      const advice = 'To publish it again, pass a number with `--version`.';
      throw new CommandError('unchanged', `Nothing changed since ${latest.semVer}. ${advice}`);
    }
    const { capabilities, settings, requiredFields } = found;
    const next = { capabilities, settings, requiredFields, discovered: found.discovered as unknown as Discovered };
    const proposed = proposeVersion(versions, latest, next);
    const proposal = wanted === undefined ? proposed : { ...proposed, semVer: wanted };
    output.printLine(`${slug} ${proposal.semVer}: ${proposal.because}`);
    for (const warning of found.warnings) output.printWarning(warning);
    if (args.flag('dryRun')) {
      const paths = files.map(({ path }) => path);
      output.printLine(`Nothing was published. The package has ${paths.join(', ')} (${found.sizeBytes} bytes).`);
      return { dryRun: true, slug, ...proposal, files: paths, ...found, warnings: [...warnings, ...found.warnings] };
    }
    if (wanted === undefined && context.canAsk) {
      await askToConfirm(context, args, `Publish ${proposal.semVer}?`, 'Nothing was published.');
    }
    const target = plugin ?? (await createPlugin(rest, slug, found));
    const uploading = uploadVersion(
      rest,
      {
        pluginId: target.id,
        semVer: proposal.semVer,
        files,
        checkedHash,
        zip: args.flag('zip'),
        signal: context.signal,
      },
      (fraction) => output.showProgress('Uploading', fraction),
    );
    const version = await (wanted === undefined ? uploading.catch(explainTakenNumber) : uploading);
    printPublished(output, slug, version, versions);
    const all = [...warnings, ...found.warnings];
    const visibility = args.flag('list') ? await listPublished(rest, target, version, all) : target.visibility;
    printNextSteps(output, version, { slug, visibility, latest: findLatestVersion([...allVersions, version]) });
    return { slug: target.slug, pluginId: target.id, visibility, version, warnings: all };
  },
};

const createTakenError = (slug: string, semVer: string): CommandError =>
  new CommandError(
    'version_exists',
    `Version ${semVer} of ${slug} exists already, and a version never changes. Omit \`--version\` to use the next free number.`,
  );

/**
 * The service refuses it, too, but not for `--dry-run`. A plugin of another account that the user cannot see is not found here.
 *
 * @throws CommandError
 */
async function requireFreeSlug(rest: Rest, slug: string): Promise<void> {
  try {
    await rest.get(`/marketplace/${slug}`);
  } catch (error) {
    if (hasCode(error, 'not_found')) return;
    throw error;
  }
  const message = `The slug “${slug}” is in use by another account. Choose another and pass it with \`--slug\`.`;
  throw new CommandError('slug_taken', message);
}

/** @throws CommandError if another publish has taken the number that this one proposed, otherwise the error */
function explainTakenNumber(error: unknown): never {
  if (!(error instanceof BulkheadError) || error.code !== 'version_exists') throw error;
  throw new CommandError(
    error.code,
    'Another publish has taken this number meanwhile. Run `bulkhead publish` again for the next one.',
  );
}

/** Lists what is published already, as after a publish whose listing failed. */
async function listUnchanged(context: Context, args: ParsedArgs, plugin: PluginDetail, version: Version) {
  const { output } = context;
  const { slug, id: pluginId } = plugin;
  output.printLine(`Nothing changed since ${version.semVer}, so it is not published again.`);
  if (args.flag('dryRun')) {
    output.printLine(`${slug} would be put into the catalog.`);
    return { dryRun: true, slug, pluginId, visibility: plugin.visibility, version };
  }
  if (context.canAsk)
    await askToConfirm(context, args, `Put ${slug} into the catalog for all users?`, 'Nothing was changed.');
  const visibility = await listPlugin(await context.getRest(), pluginId);
  printNextSteps(output, version, { slug, visibility, latest: version });
  return { slug, pluginId, visibility, version };
}

/** @throws CommandError that says how to list the version, which is published */
async function listPublished(
  rest: Rest,
  plugin: Plugin,
  version: Version,
  warnings: readonly string[],
): Promise<Plugin['visibility']> {
  const { slug, id, visibility } = plugin;
  try {
    return await listPlugin(rest, id);
  } catch (error) {
    const { code, message, exit } = toFailure(error, rest.url);
    const advice = `To list it, run \`bulkhead list ${slug}\`.`;
    throw new CommandError(code, `${version.semVer} is published, but not listed: ${message} ${advice}`, {
      exit,
      result: { slug, pluginId: id, visibility, version, warnings },
    });
  }
}

const createPlugin = (rest: Rest, slug: string, { name, description }: CheckedPackage): Promise<Plugin> =>
  rest.post<Plugin>('/plugins', { slug, displayName: name, description });

const listPlugin = async (rest: Rest, pluginId: string): Promise<Plugin['visibility']> =>
  (await rest.post<Plugin>(`/plugins/${pluginId}/listing`, undefined, { repeatable: true })).visibility;

function printPublished(output: Output, slug: string, version: Version, before: readonly Version[]): void {
  const [requested, required] = [listRequested(before, version), listNewlyRequired(before, version)];
  output.printLine(`${output.paint.green('published')} ${slug} ${version.semVer}`);
  if (requested.length > 0) output.printLine('Users must accept the update first, because it asks for more access:');
  for (const line of formatReach(requested.map(describeCapability), output.paint)) output.printLine(line);
  if (required.length > 0)
    output.printLine(`Users get it only when they have accepted it and set ${required.join(', ')}.`);
}

interface NextSteps {
  readonly slug: string;
  readonly visibility: Plugin['visibility'];
  /** The version that `install` chooses. */
  readonly latest: Pick<Version, 'semVer'> | null;
}

/** Prints who can install a version, and how. */
function printNextSteps(output: Output, { semVer }: Version, { slug, visibility, latest }: NextSteps): void {
  const isLatest = latest === null || latest.semVer === semVer;
  if (!isLatest) output.printLine(`Users keep getting ${latest.semVer}, unless they pin ${semVer}.`);
  const command = `bulkhead install ${slug}${isLatest ? '' : ` --pin ${semVer}`}`;
  if (visibility === 'listed') {
    output.printLine(`All users can install it with: ${command}`);
    return;
  }
  const audience =
    visibility === 'delisted'
      ? 'Users who have the plugin installed keep getting its new versions; others cannot find it.'
      : 'Only you can see it.';
  output.printLine(`${audience} Install it with: ${command}`);
  output.printLine(`List it in the catalog with: bulkhead list ${slug}`);
}
