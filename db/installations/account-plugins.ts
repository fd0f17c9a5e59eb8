/** Loads an account's plugins with everything that a supervisor needs to run them. */
import { REMEMBERED_SECRETS_MAX } from '../../sdk/contract/capabilities.ts';
import {
  findMissingConfiguration,
  listSecretUses,
  type Manifest,
  resolveSettings,
} from '../../sdk/contract/manifest.ts';
import { type Registrations, registrations } from '../../sdk/contract/protocol.ts';
import { findRow, findValue, listRows, listValues, type Queryable } from '../postgres/rows.ts';
import { BLOCKED_REASON_SQL, IS_TARGET_VALID_SQL } from './run-rule.ts';

/** The version number of drafts in envelopes and log lines. No published version has it. */
export const DRAFT_SEM_VER = '0.0.0-draft';

/** A version that crash-loops this soon after it became current is rolled back. Seconds. */
const PROBATION_SECONDS = 600;

/** One installation with the version it runs. */
export interface InstalledPlugin {
  readonly installationId: string;
  readonly accountId: string;
  readonly pluginId: string;
  readonly pluginOwnerId: string;
  readonly slug: string;
  readonly displayName: string;
  readonly versionId: string;
  readonly semVer: string;
  readonly bundleSha256: string;
  readonly sourceMapSha256: string | null;
  readonly registrations: Registrations;
  /** Size of the registrations. Bytes of JSON. */
  readonly registrationBytes: number;
  /** What the registrations take in memory. Bytes. */
  readonly memoryBytes: number;
  readonly granted: readonly string[];
  /** The user's values over the manifest's defaults. */
  readonly settings: Readonly<Record<string, string>>;
  readonly secretNames: readonly string[];
  /** By secret that the version declares: how the host uses it. Null: the plugin reads its value. */
  readonly secretUses: Readonly<Record<string, readonly string[] | null>>;
  readonly status: 'ready' | 'needs_configuration' | 'paused' | 'failed' | 'uninstalling';
  /** Whether the account is an operator's. */
  readonly isOperators: boolean;
  /** Whether an operation stops when one of its hooks did not run. */
  readonly required: boolean;
  /** A clause: an operator blocked the plugin or suspended the account. Null: it may run. */
  readonly blockedReason: string | null;
  /** Paths of `commands/*.md` and `skills/<name>/SKILL.md`, with the blobs that hold them. */
  readonly texts: Readonly<Record<string, string>>;
  /** Of the record of what the version offers: its commands and skills. */
  readonly discovered: unknown;
  /** Until then a crash loop returns the installation to the previous version. Null: a crash loop never does. */
  readonly rollbackUntil: string | null;
  /** Changes with the installation; supervisors then retry a failed one. */
  readonly updatedAt: string;
}

/** The offers of the plugin's version. Unlike the installation, they do not change. */
type Offer = Pick<InstalledPlugin, 'registrations' | 'registrationBytes' | 'memoryBytes' | 'discovered' | 'texts'>;

interface Row extends Omit<InstalledPlugin, 'semVer' | 'settings' | 'secretUses' | keyof Offer> {
  readonly semVer: string | null;
  readonly manifest: Manifest;
  /** Values of settings that the version declares. */
  readonly given: Record<string, string>;
}
interface OfferRow extends Pick<Offer, 'registrationBytes' | 'discovered'> {
  readonly versionId: string;
  readonly registrations: unknown;
  readonly texts: Record<string, string> | null;
}

/** Columns of an `OfferRow` besides the id. */
const OFFER = `v.registrations, octet_length(v.registrations::text) AS "registrationBytes",
         jsonb_build_object('commands', v.discovered -> 'commands', 'skills', v.discovered -> 'skills') AS discovered,
         (SELECT jsonb_object_agg(f.path, f.sha256) FROM version_files f
           WHERE f.version_id = v.id AND (f.path LIKE 'commands/%.md' OR f.path LIKE 'skills/%/SKILL.md')) AS texts`;
/** The values that the version declares: others are kept for other versions, and may be several hundred. */
const DECLARED_SETTINGS_SQL = `(SELECT coalesce(jsonb_object_agg(s.key, s.value), '{}') FROM jsonb_each(i.settings) s
    WHERE v.manifest -> 'settings' ? s.key)`;
const selectSql = (versionId: string, granted: string, more = ''): string => `
  SELECT i.id AS "installationId", i.account_id AS "accountId", i.plugin_id AS "pluginId",
         p.owner_id AS "pluginOwnerId", p.slug, p.display_name AS "displayName", v.id AS "versionId",
         v.semver AS "semVer",
         v.bundle_sha256 AS "bundleSha256", v.source_map_sha256 AS "sourceMapSha256", v.manifest,
         ${granted} AS granted, ${DECLARED_SETTINGS_SQL} AS given, i.status, i.required,
         (SELECT o.operator FROM accounts o WHERE o.id = i.account_id) AS "isOperators",
         ${BLOCKED_REASON_SQL} AS "blockedReason", i.updated_at AS "updatedAt",
         CASE WHEN i.previous_version_id IS NOT NULL
              THEN i.moved_at + make_interval(secs => ${PROBATION_SECONDS}) END AS "rollbackUntil",
         ARRAY(SELECT s.name FROM installation_secrets s WHERE s.installation_id = i.id ORDER BY s.name) AS "secretNames"${more}
    FROM installations i
    JOIN plugins p ON p.id = i.plugin_id
    JOIN versions v ON v.id = ${versionId}`;
const SELECT_WITHOUT_OFFERS = selectSql('i.current_version_id', 'i.granted_capabilities');
const SELECT = selectSql('i.current_version_id', 'i.granted_capabilities', `, ${OFFER}`);
/**
 * The capabilities of `base`, with those handles of secrets in `others` of whose secret `base` has none. A remembered handle gives
 * nothing by itself; without it, a later version could read a value that the user gives after seeing only the handle. The result has
 * handles of at most `REMEMBERED_SECRETS_MAX` secrets. It never has handles of fewer secrets than `others`, so that
 * `findMissingCapabilities` sees that some may be forgotten.
 *
 * Windows, and no join: PostgreSQL expects few elements and joined 3,000 handles with 1,000 in nested loops, which took 0.55 s.
 */
export const rememberHandlesSql = (base: string, others: string): string => `(${base} || ARRAY(
  SELECT r.handle FROM (
    SELECT m.handle, m.is_in_base, dense_rank() OVER (ORDER BY m.is_in_base DESC, m.secret) AS place FROM (
      SELECT h.handle, split_part(h.handle, ':', 1) AS secret,
             bool_or(h.is_base) OVER (PARTITION BY split_part(h.handle, ':', 1)) AS is_in_base
        FROM (SELECT unnest(${base}) AS handle, true AS is_base UNION ALL SELECT unnest(${others}), false) h
       WHERE h.handle LIKE 'secrets.%:%') m) r
   WHERE NOT r.is_in_base AND r.place <= ${REMEMBERED_SECRETS_MAX}))`;
/** The grants that an update of `i` to the version `v` gives, with the handles of versions before it. */
export const TARGET_GRANTS_SQL = `(SELECT ${rememberHandlesSql('t.grants', 'i.granted_capabilities')}
  FROM (SELECT CASE WHEN i.rollback_reason IS NULL THEN v.capabilities
                    ELSE coalesce(i.previous_grants, v.capabilities) END AS grants) t)`;
/** The version that an update moves to, with the grants that it will have. */
const TARGET = ['i.target_version_id', TARGET_GRANTS_SQL] as const;
const OF_VALID_TARGET = `WHERE i.id = $1 AND ${IS_TARGET_VALID_SQL}`;
const SELECT_TARGET_WITHOUT_OFFER = `${selectSql(...TARGET)} ${OF_VALID_TARGET}`;
const SELECT_TARGET = `${selectSql(...TARGET, `, ${OFFER}`)} ${OF_VALID_TARGET}`;
/** Offers have up to 256 KiB each, and the driver parses the rows of one query without a pause. */
const OFFERS_PER_QUERY = 4;

interface LoadOptions {
  /** Plugins that were read before: what their versions offer is not read again. */
  readonly known?: readonly InstalledPlugin[];
  /** For the time between two offers, which together can hold 25 MB of schemas: resolves when the event loop has time. */
  readonly pause?: (() => Promise<void>) | undefined;
}

/**
 * Loads the account's installations in hook order, except those being uninstalled. Includes those that cannot run (paused,
 * not configured, blocked), so that the caller can report why it skips them.
 */
export async function loadAccountPlugins(
  pool: Queryable,
  accountId: string,
  { known = [], pause }: LoadOptions = {},
): Promise<InstalledPlugin[]> {
  const offers = new Map<string, Offer>(known.map((plugin) => [plugin.versionId, plugin]));
  for (;;) {
    const rows = await listRows<Row>(
      pool,
      `${SELECT_WITHOUT_OFFERS} WHERE i.account_id = $1 AND i.status <> 'uninstalling'
        ORDER BY i.hook_order, i.id`,
      [accountId],
    );
    await loadOffers(pool, rows, offers, pause);
    const plugins = rows.flatMap((row) => {
      const offer = offers.get(row.versionId);
      return offer ? [toInstalledPlugin(row, offer)] : [];
    });
    if (plugins.length === rows.length) return plugins;
    // A draft was replaced meanwhile: its installation has another version now.
  }
}

/** Whether an account's installations are still as `loadAccountPlugins` returned them. */
export async function areUnchanged(
  pool: Queryable,
  accountId: string,
  plugins: readonly InstalledPlugin[],
): Promise<boolean> {
  const rows = await listRows<{ id: string; updatedAt: string }>(
    pool,
    `SELECT id, updated_at AS "updatedAt" FROM installations
      WHERE account_id = $1 AND status <> 'uninstalling' AND current_version_id IS NOT NULL`,
    [accountId],
  );
  const times = new Map(rows.map(({ id, updatedAt }) => [id, updatedAt]));
  return (
    plugins.length === rows.length &&
    plugins.every(({ installationId, updatedAt }) => times.get(installationId) === updatedAt)
  );
}

/** Adds the offers of the versions that `offers` lacks. */
async function loadOffers(
  pool: Queryable,
  rows: readonly Row[],
  offers: Map<string, Offer>,
  pause: LoadOptions['pause'],
): Promise<void> {
  const unknown = rows.map(({ versionId }) => versionId).filter((versionId) => !offers.has(versionId));
  for (let start = 0; start < unknown.length; start += OFFERS_PER_QUERY) {
    const found = await listRows<OfferRow>(
      pool,
      `SELECT v.id AS "versionId", ${OFFER} FROM versions v WHERE v.id = ANY($1)`,
      [unknown.slice(start, start + OFFERS_PER_QUERY)],
    );
    for (const row of found) {
      await pause?.();
      offers.set(row.versionId, toOffer(row));
    }
  }
}

/** Loads one installation in any status. Null: it is deleted or has no version. */
export async function loadInstalledPlugin(pool: Queryable, installationId: string): Promise<InstalledPlugin | null> {
  const row = await findRow<Row & OfferRow>(pool, `${SELECT} WHERE i.id = $1`, [installationId]);
  return row ? toInstalledPlugin(row, toOffer(row)) : null;
}

/** The account of an installation; null: it is deleted. */
export const findAccountId = (pool: Queryable, installationId: string): Promise<string | null> =>
  findValue(pool, 'SELECT account_id FROM installations WHERE id = $1', [installationId]);

interface UpdateTarget {
  readonly plugin: InstalledPlugin;
  /** Names of the settings and secrets that the version requires and the installation lacks. */
  readonly missing: readonly string[];
}

/** Loads the update under way. Null: no update is under way, or its version was yanked. */
export async function loadUpdateTarget(pool: Queryable, installationId: string): Promise<UpdateTarget | null> {
  const row = await findRow<Row & OfferRow>(pool, SELECT_TARGET, [installationId]);
  if (!row) return null;
  return { plugin: toInstalledPlugin(row, toOffer(row)), missing: listMissing(row) };
}

/** As `loadUpdateTarget`, without what the version offers: what decides whether the update may go on. */
export async function loadUpdateState(pool: Queryable, installationId: string) {
  const plugin = await findRow<Row>(pool, SELECT_TARGET_WITHOUT_OFFER, [installationId]);
  return plugin && { plugin, missing: listMissing(plugin) };
}

const listMissing = ({ manifest, given, secretNames }: Row): string[] =>
  findMissingConfiguration(manifest, given, secretNames);

/** Which of these installations an operator stopped. */
export const findBlocked = (pool: Queryable, installationIds: readonly string[]): Promise<readonly string[]> =>
  listValues(
    pool,
    `SELECT i.id FROM installations i JOIN plugins p ON p.id = i.plugin_id
      WHERE i.id = ANY($1) AND ${BLOCKED_REASON_SQL} IS NOT NULL`,
    [installationIds],
  );

/** What an empty object takes in the memory of V8, measured with 40,000 in a list. Bytes. */
const VALUE_MEMORY_BYTES = 60;
const countValues = (value: unknown): number =>
  typeof value === 'object' && value !== null
    ? Object.values(value).reduce<number>((sum, inner) => sum + countValues(inner), 1)
    : 1;

const toOffer = ({ registrations: registered, registrationBytes, discovered, texts }: OfferRow): Offer => ({
  registrations: registrations.parse(registered),
  registrationBytes,
  memoryBytes: registrationBytes + VALUE_MEMORY_BYTES * countValues(registered),
  discovered,
  texts: texts ?? {},
});

function toInstalledPlugin({ manifest, given, semVer, ...row }: Row, offer: Offer): InstalledPlugin {
  return {
    ...row,
    semVer: semVer ?? DRAFT_SEM_VER,
    // Each by its name: a known offer is a whole plugin, whose other fields may be old.
    registrations: offer.registrations,
    registrationBytes: offer.registrationBytes,
    memoryBytes: offer.memoryBytes,
    discovered: offer.discovered,
    texts: offer.texts,
    settings: resolveSettings(manifest, given),
    secretUses: listSecretUses(manifest),
  };
}
