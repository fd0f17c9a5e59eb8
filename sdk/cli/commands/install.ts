/** `bulkhead install`: shows what a plugin can access and installs it. */

import { canCancel, describeCapability } from '../../contract/capabilities.ts';
import { listEndingChecks } from '../../contract/ending-checks.ts';
import { hasCode } from '../../session/transport.ts';
import type { Command, ParsedArgs } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { findPlugin, requireVersion } from '../lookup.ts';
import type { Paint } from '../output.ts';
import { formatReach } from '../reach-text.ts';
import type { Rest } from '../rest.ts';
import type { CatalogEntry, Installation, Reach } from '../rest-types.ts';
import { askToConfirm } from '../terminal-prompts.ts';
import { toOneLine } from '../terminal-text.ts';
import { printUpdate } from '../update-text.ts';

interface Policy {
  readonly versionPolicy: Installation['versionPolicy'];
  readonly pinnedVersionId?: string;
  readonly required?: boolean;
}
/** What the user consents to. */
interface Choice {
  readonly policy: Policy;
  /** Absent: the plugin has no published version. */
  readonly versionId?: string | undefined;
  readonly reach: readonly Reach[];
}

export const install: Command = {
  name: 'install',
  summary: 'Install a plugin, or move it to another version, after showing what it can access',
  args: [{ name: '<slug>', doc: 'slug of the plugin in the catalog' }],
  options: [
    { flags: '--draft', doc: 'run the draft of your own plugin' },
    { flags: '--pin <semver>', doc: 'stay on this version, also if the plugin is installed' },
    { flags: '--latest', doc: 'follow the latest version, also if the plugin is installed' },
    {
      flags: '--required',
      doc: 'stop messages and turns that its hooks check, if the plugin is not running, fails or times out',
    },
    { flags: '-y, --yes', doc: 'consent to what it can access; needed without a terminal' },
  ],
  examples: [
    'install weather',
    'install weather --pin 1.0.0',
    'install message-guard --required',
    'install my-plugin --draft',
  ],
  async run(context, args) {
    const slug = args.positional[0] ?? '';
    refuseSeveralPolicies(args);
    const rest = await context.getRest();
    const entry = args.flag('draft') ? null : await getCatalogEntry(rest, slug);
    const { policy, versionId, reach } = entry ? await chooseVersion(args, rest, slug, entry) : DRAFT;
    if (entry) await showAndConfirm(context, args, entry, reach);
    const body = { ...policy, ...(args.flag('required') ? { required: true } : {}) };
    const named = policy.versionPolicy === 'Latest' && versionId !== undefined ? { versionId } : {};
    const moved = entry
      ? await moveToPublished(args, rest, entry, body, versionId)
      : await switchToDraft(rest, slug, body);
    const installation = moved ?? (await rest.post<Installation>('/installations', { slug, ...body, ...named }));
    const { output } = context;
    const { updateUnderWay, failedUpdate, pendingUpdate } = installation;
    const isPending = pendingUpdate !== null && pendingUpdate.versionId === versionId;
    if (updateUnderWay || failedUpdate || isPending || (moved && installation.status === 'ready'))
      printUpdate(output, installation);
    else output.printLine(describeInstalled(installation, output.paint));
    if (installation.status === 'needs_configuration') {
      output.printLine(`${installation.statusReason ?? ''} See bulkhead configure ${slug} --help.`.trim());
    }
    if (!installation.required && reach.some(({ cancels }) => cancels)) {
      output.printLine(
        `To stop messages that it must check while it does not run: bulkhead configure ${slug} --required`,
      );
    }
    return installation;
  },
};

/** @throws CommandError if the options contradict each other */
function refuseSeveralPolicies(args: ParsedArgs): void {
  const given = [args.flag('draft'), args.flag('latest'), args.text('pin') !== undefined].filter(Boolean);
  if (given.length > 1) throw new CommandError('usage', 'Pass one of `--pin`, `--latest` and `--draft`.');
}

function describeInstalled({ slug, status, currentSemVer }: Installation, paint: Paint): string {
  // The process starts with its first call, so its code may still fail to load.
  const state = status === 'ready' ? 'ready to start at its first call' : status.replaceAll('_', ' ');
  return `${paint.green('installed')} ${slug} ${currentSemVer ?? 'draft'}, ${state}`;
}

const DRAFT: Choice = { policy: { versionPolicy: 'Draft' }, reach: [] };

async function chooseVersion(args: ParsedArgs, rest: Rest, slug: string, entry: CatalogEntry): Promise<Choice> {
  const pin = args.text('pin');
  if (pin === undefined) {
    return { policy: { versionPolicy: 'Latest' }, versionId: entry.latest?.versionId, reach: entry.reach };
  }
  const { versionId, reach } =
    entry.versions.find(({ semVer }) => semVer === pin) ?? (await findOwnVersion(rest, slug, entry, pin));
  return { policy: { versionPolicy: 'Pinned', pinnedVersionId: versionId }, versionId, reach };
}

/** Finds a version that the catalog leaves out because many are newer. @throws CommandError if the plugin has no such version */
async function findOwnVersion(rest: Rest, slug: string, { versions, versionsTruncated }: CatalogEntry, pin: string) {
  const plugin = await findPlugin(rest, slug);
  if (!plugin) {
    const newest = versions.map(({ semVer }) => semVer).join(', ');
    const fault = versionsTruncated
      ? `The catalog does not list a version ${pin} of “${slug}”: it may be too old.`
      : `The catalog has no version ${pin} of “${slug}”.`;
    throw new CommandError('not_found', `${fault} Its newest are ${newest}.`);
  }
  const { id, capabilities } = requireVersion(plugin, pin);
  if (capabilities) return { versionId: id, reach: capabilities.map(describeReach) };
  const message = `“${slug}” ${pin} has so many newer versions that the service does not list what it can access. Pin a newer one.`;
  throw new CommandError('not_found', message);
}

const describeReach = (capability: string): Reach => ({
  ...describeCapability(capability),
  cancels: canCancel(capability),
});

/** A `dev` that was ended before it had restored the policy can leave the draft running under another policy. */
const followsOrRunsDraft = ({ versionPolicy, currentVersionId, currentSemVer }: Installation): boolean =>
  versionPolicy === 'Draft' || (currentVersionId !== null && currentSemVer === null);

/**
 * Moves an installation to published versions: from the draft, or as `--pin` or `--latest` asks.
 *
 * @returns null if the plugin is not installed, or no option asks to move it and it does not run the draft
 */
async function moveToPublished(
  args: ParsedArgs,
  rest: Rest,
  { installationId }: CatalogEntry,
  policy: Policy,
  versionId: string | undefined,
) {
  if (installationId === null) return null;
  const path = `/installations/${installationId}`;
  const isAsked = args.flag('latest') || args.text('pin') !== undefined;
  if (!isAsked && !followsOrRunsDraft(await rest.get<Installation>(path))) return null;
  const updated = await rest.patch<Installation>(path, policy);
  const { pendingUpdate } = updated;
  // Accepts only the version that was shown, not one published since.
  if (pendingUpdate === null || pendingUpdate.versionId !== versionId) return updated;
  // What the version drops of a plugin that the user requires was not shown.
  if (listEndingChecks(updated.pendingUpdate, updated).length > 0) return updated;
  return await rest.post<Installation>(`${path}/accept-update`, { versionId });
}

/** Moves an installation from published versions to the draft. @returns null if the plugin is not installed, or runs the draft */
async function switchToDraft(rest: Rest, slug: string, policy: Policy): Promise<Installation | null> {
  const all = await rest.getAll<Installation>('/installations');
  const installed = all.find((one) => one.slug === slug && one.versionPolicy !== 'Draft');
  return installed ? rest.patch<Installation>(`/installations/${installed.id}`, policy) : null;
}

/** @throws CommandError if the catalog has no such plugin */
const getCatalogEntry = (rest: Rest, slug: string): Promise<CatalogEntry> =>
  rest.get<CatalogEntry>(`/marketplace/${encodeURIComponent(slug)}`).catch((error: unknown) => {
    if (!hasCode(error, 'not_found')) throw error;
    const message = `There is no plugin “${slug}” in the catalog of ${rest.url}. Look up its slug in the catalog.`;
    throw new CommandError('not_found', message);
  });

/** Shows what the version can access and asks for consent. */
async function showAndConfirm(
  context: Context,
  args: ParsedArgs,
  { displayName }: CatalogEntry,
  reach: readonly Reach[],
): Promise<void> {
  const { output } = context;
  const name = [displayName, args.text('pin')].join(' ').trimEnd();
  if (reach.length > 0) output.printLine(`${toOneLine(name)}:`);
  for (const line of formatReach(reach, output.paint)) output.printLine(line);
  await askToConfirm(context, args, `Install ${name}?`, 'Nothing was installed.');
}
