/** `bulkhead publish`: checks the package, proposes the next number, and publishes it. */
import { agree } from '../asking.ts';
import type { Command, Given } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { latestOf, type Proposal, proposeVersion } from '../next-version.ts';
import { findPlugin } from '../own-plugins.ts';
import { openFolder, slugFault } from '../package-folder.ts';
import { sendVersion } from '../package-upload.ts';
import type { Discovered, Plugin, PluginDetail, Version } from '../records.ts';
import type { Rest } from '../rest.ts';
import type { CheckedPackage } from '../toolbox.ts';

export const publish: Command = {
  name: 'publish',
  summary: 'Publish the package as a new version',
  args: [{ name: '[folder]', doc: 'the folder with readme.md and index.ts; else this one' }],
  options: [
    { flags: '--version <semver>', doc: 'the number; else the next one by what changed' },
    { flags: '--dry-run', doc: 'say what would be published, and publish nothing' },
    { flags: '--list', doc: 'list the plugin in the catalog afterwards' },
    { flags: '--zip', doc: 'send a zip, also where a list of text files would do' },
    { flags: '--slug <slug>', doc: 'the plugin’s slug; else that of package.json or the folder’s name' },
    { flags: '-y, --yes', doc: 'do not ask' },
  ],
  examples: ['publish', 'publish --dry-run', 'publish --version 2.0.0-rc.1 --yes --json'],
  async run(context, given) {
    const { output } = context;
    const { slug, files } = await openFolder(context.folder, given.args[0], given.text('slug'));
    const fault = slugFault(slug);
    if (fault) throw new CommandError('usage', `“${slug}” ${fault}. Give one with \`--slug\`.`, { exit: 'usage' });
    // Asked first: who is not signed in need not wait for the check.
    const rest = await context.rest();
    const checked = await context.toolbox.check(files, slug);
    if (!checked.ok) {
      const { code, message, errors } = checked;
      throw new CommandError(code, message, { exit: 'invalidPackage', errors });
    }
    const plugin = await findPlugin(rest, slug);
    const proposal = propose(plugin, checked.found, given.text('version'));
    output.say(`${slug} ${proposal.semVer}: ${proposal.because}`);
    for (const warning of checked.found.warnings) output.say(`${output.paint.yellow('warning')} ${warning}`);
    if (given.flag('dryRun')) {
      const paths = files.map(({ path }) => path);
      output.say(`Nothing was published. It would hold ${paths.join(', ')} (${checked.found.sizeBytes} bytes).`);
      return { dryRun: true, slug, ...proposal, files: paths, ...checked.found };
    }
    // Who said the number has said what to publish.
    if (given.text('version') === undefined)
      await agree(context, given, `Publish ${proposal.semVer}?`, 'Nothing was published.');
    const made = plugin ?? (await makePlugin(rest, slug, checked.found));
    const version = await sendVersion(
      rest,
      { pluginId: made.id, semVer: proposal.semVer, files, zip: given.flag('zip') },
      (part) => output.progress('Sending', part),
    );
    return tell(context, given, rest, made, version);
  },
};

function propose(plugin: PluginDetail | null, found: CheckedPackage, wanted: string | undefined): Proposal {
  const versions = plugin?.versions ?? [];
  const previous = latestOf(versions);
  const next = { capabilities: found.capabilities, discovered: found.discovered as unknown as Discovered };
  const proposal = proposeVersion(versions, previous, next);
  if (wanted !== undefined) return { ...proposal, semVer: wanted };
  if (previous?.sourceSha256 !== found.sourceSha256) return proposal;
  const message = `Nothing changed since ${previous.semVer}: change something, or give a number with \`--version\`.`;
  throw new CommandError('unchanged', message);
}

const makePlugin = (rest: Rest, slug: string, { name, description }: CheckedPackage): Promise<Plugin> =>
  rest.post<Plugin>('/plugins', { slug, displayName: name, description });

async function tell(context: Context, given: Given, rest: Rest, plugin: Plugin, version: Version) {
  const { output } = context;
  const listed = given.flag('list') ? await rest.post<Plugin>(`/plugins/${plugin.id}/listing`) : plugin;
  output.say(`${output.paint.green('published')} ${plugin.slug} ${version.semVer}`);
  const asked = version.addedCapabilities.filter((name) => name.startsWith('host.'));
  if (asked.length > 0) output.say(`Who has it installed is asked first, because it now needs ${asked.join(', ')}.`);
  if (listed.visibility === 'listed') output.say(`Anybody can install it: bulkhead install ${plugin.slug}`);
  else output.say(`Only you see it: bulkhead install ${plugin.slug}, and bulkhead list when it is ready for others.`);
  return { slug: plugin.slug, pluginId: plugin.id, visibility: listed.visibility, version };
}
