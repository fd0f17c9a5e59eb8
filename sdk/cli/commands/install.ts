/** `bulkhead install`: installs a plugin for the signed-in account, after showing what it can reach. */
import type { Command, Given } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { requirePlugin, requireVersion } from '../own-plugins.ts';
import type { CatalogEntry, Installation } from '../records.ts';
import type { Rest } from '../rest.ts';

const POLICIES = ['Latest', 'Pinned', 'Draft'];

export const install: Command = {
  name: 'install',
  summary: 'Install a plugin, and consent to what it can reach',
  args: [{ name: '<slug>', doc: 'as in the catalog' }],
  options: [
    { flags: '--draft', doc: 'follow the draft of your own plugin, as `bulkhead dev` saves it' },
    { flags: '--pin <semver>', doc: 'stay on this version of your own plugin' },
    { flags: '-y, --yes', doc: 'do not ask' },
  ],
  examples: ['install weather', 'install my-plugin --draft'],
  async run(context, given) {
    const slug = given.args[0] ?? '';
    const rest = await context.rest();
    const consent = given.flag('draft') ? {} : await shown(context, given, rest, slug);
    const made = await rest.post<Installation>('/installations', {
      slug,
      ...(await policyOf(given, rest, slug)),
      ...consent,
    });
    const { output } = context;
    output.say(
      `${output.paint.green('installed')} ${slug} ${made.currentSemVer ?? 'draft'}, ${made.status.replaceAll('_', ' ')}`,
    );
    if (made.status === 'needs_configuration') {
      output.say(`${made.statusReason ?? ''} See bulkhead configure ${slug} --help.`.trim());
    }
    return made;
  },
};

async function policyOf(given: Given, rest: Rest, slug: string) {
  if (given.flag('draft')) return { versionPolicy: POLICIES[2] };
  const pin = given.text('pin');
  if (pin === undefined) return { versionPolicy: POLICIES[0] };
  const version = requireVersion(await requirePlugin(rest, slug), pin);
  return { versionPolicy: POLICIES[1], pinnedVersionId: version.id };
}

/** @returns the version that was shown, so that a later publish cannot ride on this consent */
async function shown(context: Context, given: Given, rest: Rest, slug: string): Promise<{ versionId?: string }> {
  const entry = await rest.get<CatalogEntry>(`/marketplace/${encodeURIComponent(slug)}`).catch((error: unknown) => {
    if ((error as { code?: string }).code !== 'not_found') throw error;
    throw new CommandError(
      'not_found',
      `There is no plugin “${slug}” in the catalog of ${rest.url}: look for its slug there.`,
    );
  });
  const { output } = context;
  if (entry.reach.length > 0) output.say(`${entry.displayName} can do this:`);
  for (const { sentence, risk } of entry.reach)
    output.say(`  ${sentence}${risk === 'high' ? ` ${output.paint.red('(high risk)')}` : ''}`);
  if (output.isTerminal && !given.flag('yes')) {
    const { confirm } = await import('@clack/prompts');
    if ((await confirm({ message: `Install ${entry.displayName}?` })) !== true) {
      throw new CommandError('interrupted', 'Nothing was installed.', { exit: 'interrupted' });
    }
  }
  return entry.latest && given.text('pin') === undefined ? { versionId: entry.latest.versionId } : {};
}
