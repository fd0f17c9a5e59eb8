/** `bulkhead install`: installs a plugin for the signed-in account, after showing what it can reach. */
import { agree } from '../asking.ts';
import type { Command, Given } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { requirePlugin, requireVersion } from '../own-plugins.ts';
import type { CatalogEntry, Installation } from '../records.ts';
import type { Rest } from '../rest.ts';

interface Policy {
  readonly versionPolicy: Installation['versionPolicy'];
  readonly pinnedVersionId?: string;
}

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
    const entry = given.flag('draft') ? null : await shown(context, given, rest, slug);
    const policy = await policyOf(given, rest, slug);
    const versionId = policy.versionPolicy === 'Latest' ? entry?.latest?.versionId : undefined;
    const made =
      (entry && (await leaveDraft(rest, entry, policy))) ??
      (await rest.post<Installation>('/installations', { slug, ...policy, ...(versionId && { versionId }) }));
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

async function policyOf(given: Given, rest: Rest, slug: string): Promise<Policy> {
  if (given.flag('draft')) return { versionPolicy: 'Draft' };
  const pin = given.text('pin');
  if (pin === undefined) return { versionPolicy: 'Latest' };
  const version = requireVersion(await requirePlugin(rest, slug), pin);
  return { versionPolicy: 'Pinned', pinnedVersionId: version.id };
}

/**
 * What `bulkhead dev` installed follows published versions from now on. @returns null where it is installed otherwise, or
 * not at all
 */
async function leaveDraft(rest: Rest, { installationId, latest }: CatalogEntry, policy: Policy) {
  if (installationId === null) return null;
  const path = `/installations/${installationId}`;
  if ((await rest.get<Installation>(path)).versionPolicy !== 'Draft') return null;
  const moved = await rest.patch<Installation>(path, policy);
  const asked = moved.pendingUpdate?.versionId;
  // Accepted is what was shown, and nothing that was published since.
  if (asked === undefined || asked !== (policy.pinnedVersionId ?? latest?.versionId)) return moved;
  return await rest.post<Installation>(`${path}/accept-update`, { versionId: asked });
}

/** Shows what it can reach and asks. @returns what was shown: a later publish cannot ride on this consent */
async function shown(context: Context, given: Given, rest: Rest, slug: string): Promise<CatalogEntry> {
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
  await agree(context, given, `Install ${entry.displayName}?`, 'Nothing was installed.');
  return entry;
}
