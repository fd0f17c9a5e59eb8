/** Which draft or version the editor loads, and what it says about it. */
import { findLatestVersion } from '../../sdk/contract/version-numbers.ts';

/** The draft or the version that the files in the editor were made from. */
export interface Source {
  /** Id of the version, or `draft`. */
  readonly id: string;
  /** Null: the draft. */
  readonly semVer: string | null;
  /** When it was saved or published. */
  readonly at: string;
  readonly sourceSha256: string;
}
interface Version {
  readonly id: string;
  readonly semVer: string;
  readonly status: string;
  readonly createdAt: string;
  readonly sourceSha256: string;
}
/** A plugin, as far as the choice depends on it. */
export interface Sources {
  readonly versions: readonly Version[];
  readonly draft: { readonly savedAt: string; readonly sourceSha256: string } | null;
}

export const DRAFT = 'draft';

export const describeVersion = ({ id, semVer, createdAt, sourceSha256 }: Version): Source => ({
  id,
  semVer,
  at: createdAt,
  sourceSha256,
});

export const describeDraft = ({ savedAt, sourceSha256 }: NonNullable<Sources['draft']>): Source => ({
  id: DRAFT,
  semVer: null,
  at: savedAt,
  sourceSha256,
});

/** Lists what can be loaded: the draft, and then the published versions as the plugin lists them. */
export const listSources = ({ versions, draft }: Sources): Source[] => [
  ...(draft ? [describeDraft(draft)] : []),
  ...versions.filter(({ status }) => status === 'published').map(describeVersion),
];

/** Returns what is loaded by default: the draft, or the version that the proposed number follows. Null: nothing is stored. */
export function chooseSource({ versions, draft }: Sources): Source | null {
  if (draft) return describeDraft(draft);
  const latest = findLatestVersion(versions);
  return latest && describeVersion(latest);
}

/**
 * Finds Latest if it was published after the source, with other files: a version that is made from the source would undo its changes.
 *
 * @param source null: a template
 */
export function findNewer({ versions }: Sources, source: Source | null): Source | null {
  const latest = findLatestVersion(versions);
  if (!latest) return null;
  if (source === null) return describeVersion(latest);
  const isNewer = latest.id !== source.id && Date.parse(latest.createdAt) > Date.parse(source.at);
  return isNewer && latest.sourceSha256 !== source.sourceSha256 ? describeVersion(latest) : null;
}

interface StoredFile {
  readonly path: string;
  readonly contentText: string | null;
}

/**
 * Lists files that the editor cannot open, so that neither a draft nor a version made here has them.
 *
 * @param latest files of Latest, if a draft is loaded. A draft cannot have binary files, so it does not show which ones it lacks
 */
export function listLeftOut(loaded: readonly StoredFile[], latest: readonly StoredFile[] = []): string[] {
  const paths = new Set(loaded.map(({ path }) => path));
  const others = latest.filter(({ path }) => !paths.has(path));
  return [...loaded, ...others].filter(({ contentText }) => contentText === null).map(({ path }) => path);
}
