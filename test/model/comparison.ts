/** Compares the state that the service shows with the state of the model. */
import { deepEqual, equal } from 'node:assert/strict';
import { isWithin, numbers, wider } from './packages.ts';
import type { Reality } from './reality.ts';
import { latestOf, type Model, type ModelInstallation, type ModelPlugin, newlyLacks, statusOf } from './reference.ts';

/** Compares the installations of all accounts, the changed plugin for its owner, and the catalog for the actor. */
export async function compare(
  model: Model,
  real: Reality,
  plugin: ModelPlugin | undefined,
  actor: string,
): Promise<void> {
  if (plugin) await comparePlugin(real, plugin);
  await compareCatalog(model, real, actor);
  await Promise.all(real.accounts.map((account) => compareInstallations(model, real, account)));
}

async function comparePlugin(real: Reality, plugin: ModelPlugin): Promise<void> {
  const client = real.client(plugin.owner);
  const { status, body } = await client.get(`/plugins/${plugin.id}`);
  equal(status, plugin.deleted ? 404 : 200);
  if (plugin.deleted) return;
  const byRank = plugin.versions.toSorted((a, b) => rank(b.semVer) - rank(a.semVer));
  deepEqual(
    body.versions.map(({ id, semVer, status }: { id: string; semVer: string; status: string }) => ({
      id,
      semVer,
      status,
    })),
    byRank.map(({ id, semVer, yanked }) => ({ id, semVer, status: yanked ? 'yanked' : 'published' })),
  );
  deepEqual(
    { visibility: body.visibility, message: body.deprecationMessage, draft: body.draft !== null },
    { visibility: plugin.visibility, message: plugin.message, draft: plugin.draft !== null },
  );
  if (plugin.draft?.id === '') plugin.draft.id = await readDraftId(real, plugin);
}

const rank = (semVer: string | null): number => numbers.indexOf(semVer ?? '');

/** Reads the draft's id from its row, because no response contains it. */
async function readDraftId(real: Reality, plugin: ModelPlugin): Promise<string> {
  const found = await real.api.pool.query(`SELECT id FROM versions WHERE plugin_id = $1 AND status = 'draft'`, [
    plugin.id,
  ]);
  return found.rows[0].id;
}

async function compareCatalog(model: Model, real: Reality, actor: string): Promise<void> {
  const { body } = await real.client(actor).get(`/marketplace?limit=100&q=${real.prefix}-`);
  const isSeen = ({ deleted, visibility, owner }: ModelPlugin) =>
    !deleted && (visibility === 'listed' || owner === actor);
  const expected = model.plugins.filter(isSeen).map((plugin) => ({
    slug: plugin.slug,
    latest: latestOf(plugin)?.semVer ?? null,
    installationId: model.live(plugin).find(({ account }) => account === actor)?.id ?? null,
    installCount: model.live(plugin).length,
  }));
  interface Entry extends Record<string, unknown> {
    readonly slug: string;
    readonly latest: { readonly semVer: string } | null;
  }
  const shown = body.items.map(({ slug, latest, installationId, installCount }: Entry) => ({
    slug,
    latest: latest?.semVer ?? null,
    installationId,
    installCount,
  }));
  // Sorted, because the search orders by relevance.
  deepEqual(shown.sort(bySlug), expected.sort(bySlug));
}

const bySlug = (a: { readonly slug: string }, b: { readonly slug: string }): number => (a.slug < b.slug ? -1 : 1);

async function compareInstallations(model: Model, real: Reality, account: string): Promise<void> {
  const { body } = await real.client(account).get('/installations');
  const expected = model.installations.filter((one) => one.account === account && !one.gone).map(expectedView);
  const shown = body.items.map((item: Record<string, unknown>) =>
    Object.fromEntries(
      Object.keys(expected[0] ?? {}).map((key) => [key, key === 'underWay' ? underWay(item) : item[key]]),
    ),
  );
  deepEqual(shown, expected);
  for (const item of body.items) {
    const [word = null] = /yanked|withdrawn/.exec(item.statusReason ?? '') ?? [];
    equal(word, yankNotice(model, item.id), 'yank notice');
  }
}

/** The version that an update under way moves to. */
const underWay = ({ updateUnderWay }: { readonly updateUnderWay?: unknown }): string | null =>
  (updateUnderWay as { readonly versionId: string } | null)?.versionId ?? null;

/** The word for a yank in the notice of an installation. A pinned version that never ran comes before the one that runs. */
function yankNotice(model: Model, id: string): 'withdrawn' | 'yanked' | null {
  const one = model.installations.find((each) => each.id === id);
  if (!one || statusOf(one) === 'needs_configuration' || one.target !== null) return null;
  if (one.pinned?.yanked && one.pinned !== one.current) return 'withdrawn';
  return one.current.yanked ? 'yanked' : null;
}

function expectedView(one: ModelInstallation) {
  const { plugin, current, pending, target, granted } = one;
  const needed = pending?.of.capabilities ?? [];
  const removed = granted.filter((capability) => !needed.includes(capability));
  return {
    id: one.id,
    slug: plugin.slug,
    versionPolicy: one.policy,
    pinnedVersionId: one.pinned?.id ?? null,
    currentVersionId: current.id,
    currentSemVer: current.semVer,
    grantedCapabilities: granted,
    pendingUpdate: pending && {
      versionId: pending.id,
      semVer: pending.semVer,
      added: needed.filter((capability) => !isWithin(granted, capability)),
      removed,
      narrowed: needed.filter((capability) => removed.includes(wider[capability] ?? '')),
      missing: newlyLacks(one, pending),
    },
    underWay: target?.id ?? null,
    settings: one.settings,
    secretNames: one.secrets,
    status: statusOf(one),
    hookOrder: one.hookOrder,
    required: one.required,
    deprecationMessage: plugin.message,
  };
}
