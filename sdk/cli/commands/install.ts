/** `bulkhead install`: shows what a plugin can access and installs it. */
import { hasCode } from '../../session/transport.ts';
import type { Command, ParsedArgs } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { requirePlugin, requireVersion } from '../lookup.ts';
import { formatReach } from '../reach-text.ts';
import type { Rest } from '../rest.ts';
import type { CatalogEntry, Installation } from '../rest-types.ts';
import { askToConfirm } from '../terminal-prompts.ts';
import { toOneLine } from '../terminal-text.ts';

interface Policy {
  readonly versionPolicy: Installation['versionPolicy'];
  readonly pinnedVersionId?: string;
  readonly required?: boolean;
}

export const install: Command = {
  name: 'install',
  summary: 'Install a plugin after showing what it can access',
  args: [{ name: '<slug>', doc: 'slug of the plugin in the catalog' }],
  options: [
    { flags: '--draft', doc: 'run the draft of your own plugin' },
    { flags: '--pin <semver>', doc: 'pin this version of your own plugin' },
    {
      flags: '--required',
      doc: 'stop messages and turns that its hooks check, if the plugin is not running, fails or times out',
    },
    { flags: '-y, --yes', doc: 'consent to what it can access; needed without a terminal' },
  ],
  examples: ['install weather', 'install message-guard --required', 'install my-plugin --draft'],
  async run(context, args) {
    const slug = args.positional[0] ?? '';
    const rest = await context.getRest();
    const entry = args.flag('draft') ? null : await showAndConfirm(context, args, rest, slug);
    const policy = await readPolicy(args, rest, slug);
    const versionId = policy.versionPolicy === 'Latest' ? entry?.latest?.versionId : undefined;
    const required = args.flag('required') ? { required: true } : {};
    const installation =
      (entry && (await switchFromDraft(rest, entry, { ...policy, ...required }))) ??
      (await rest.post<Installation>('/installations', {
        slug,
        ...policy,
        ...required,
        ...(versionId && { versionId }),
      }));
    const { output } = context;
    // The process starts with its first call, so its code may still fail to load.
    const status =
      installation.status === 'ready' ? 'ready to start at its first call' : installation.status.replaceAll('_', ' ');
    output.printLine(`${output.paint.green('installed')} ${slug} ${installation.currentSemVer ?? 'draft'}, ${status}`);
    if (installation.status === 'needs_configuration') {
      output.printLine(`${installation.statusReason ?? ''} See bulkhead configure ${slug} --help.`.trim());
    }
    if (!installation.required && entry?.reach.some(({ cancels }) => cancels)) {
      output.printLine(
        `To stop messages that it must check while it does not run: bulkhead configure ${slug} --required`,
      );
    }
    return installation;
  },
};

async function readPolicy(args: ParsedArgs, rest: Rest, slug: string): Promise<Policy> {
  if (args.flag('draft')) return { versionPolicy: 'Draft' };
  const pin = args.text('pin');
  if (pin === undefined) return { versionPolicy: 'Latest' };
  const version = requireVersion(await requirePlugin(rest, slug), pin);
  return { versionPolicy: 'Pinned', pinnedVersionId: version.id };
}

/** Moves an installation from the draft to published versions. @returns null if no installation runs the draft */
async function switchFromDraft(rest: Rest, { installationId, latest }: CatalogEntry, policy: Policy) {
  if (installationId === null) return null;
  const path = `/installations/${installationId}`;
  if ((await rest.get<Installation>(path)).versionPolicy !== 'Draft') return null;
  const updated = await rest.patch<Installation>(path, policy);
  const pendingId = updated.pendingUpdate?.versionId;
  // Accepts only the version that was shown, not one published since.
  if (pendingId === undefined || pendingId !== (policy.pinnedVersionId ?? latest?.versionId)) return updated;
  return await rest.post<Installation>(`${path}/accept-update`, { versionId: pendingId });
}

/** Shows what the plugin can access and asks for consent. @returns the entry that the user consented to */
async function showAndConfirm(context: Context, args: ParsedArgs, rest: Rest, slug: string): Promise<CatalogEntry> {
  const entry = await rest.get<CatalogEntry>(`/marketplace/${encodeURIComponent(slug)}`).catch((error: unknown) => {
    if (!hasCode(error, 'not_found')) throw error;
    const message = `There is no plugin “${slug}” in the catalog of ${rest.url}. Look up its slug in the catalog.`;
    throw new CommandError('not_found', message);
  });
  const { output } = context;
  if (entry.reach.length > 0) output.printLine(`${toOneLine(entry.displayName)}:`);
  for (const line of formatReach(entry.reach, output.paint)) output.printLine(line);
  await askToConfirm(context, args, `Install ${entry.displayName}?`, 'Nothing was installed.');
  return entry;
}
