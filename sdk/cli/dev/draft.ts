/** Saves a package folder as the author's draft, and installs the draft for its author. */
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { hashFileTree, sortByPathBytes } from '../../contract/file-tree.ts';
import { FILE_LIST_MAX_BYTES, MIB } from '../../contract/limits.ts';
import { decodeText } from '../../contract/text-bytes.ts';
import { pause } from '../../session/pause.ts';
import { hasCode } from '../../session/transport.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import type { FolderFile } from '../local-tools.ts';
import { BEFORE_FIRST_LINE, readLastLines } from '../log-lines.ts';
import { findInstallation, findPlugin } from '../lookup.ts';
import { type FileId, readPackageFolder } from '../package-folder.ts';
import { countJsonBytes, type PackageTexts } from '../package-upload.ts';
import type { Rest } from '../rest.ts';
import type { Installation, PluginDetail } from '../rest-types.ts';
import { TestSession } from '../test-session.ts';
import { SavedDraftFile } from './saved-draft-file.ts';

/** Interval at which a version that starts slowly is looked up. Milliseconds. */
const POLL_MS = 250;
/**
 * Most drafts that are remembered as sent since the last save that succeeded. A lost answer takes one of them, and each save with faults
 * after it another one; an author who makes 100 such saves is asked to type `replace`.
 */
const SENT_MAX = 100;

const NOT_SAVED = 'This folder is not saved as your draft. Do what the last error says.';

interface SaveResult {
  readonly warnings: readonly string[];
  /** Until the service had built and stored the draft, milliseconds. */
  readonly savedMs: number;
  /** Until the draft was running, milliseconds. */
  readonly liveMs: number;
}

interface SavedDraftAnswer {
  readonly sourceSha256: string;
  readonly warnings: readonly string[];
}

export interface RestoreResult {
  /** Null: the user uninstalled it meanwhile. */
  readonly installation: Installation | null;
  /**
   * `previous`: it runs the version that it ran before the draft. `other`: another one. `left`: the user has chosen another policy
   * than Draft meanwhile, which stays. `draft`: it was new or followed the draft before `dev`, and still follows it.
   */
  readonly outcome: 'previous' | 'other' | 'left' | 'draft';
}
interface DraftOptions {
  readonly folder: string;
  readonly slug: string;
  readonly rest: Rest;
  readonly pluginId: string;
  readonly testSession: TestSession;
  readonly savedDraftFile: SavedDraftFile;
  readonly replaceable: readonly string[];
  readonly startLine: string;
  readonly outputIds: readonly FileId[];
}

export class Draft {
  readonly slug: string;
  readonly folder: string;
  readonly testSession: TestSession;

  /** Id of the last log line before `dev` began. */
  readonly startLine: string;

  readonly #rest: Rest;
  readonly #pluginId: string;
  readonly #outputIds: readonly FileId[];
  readonly #savedDraftFile: SavedDraftFile;
  /**
   * `sourceSha256` of the drafts that a save may replace: the one that this computer saved last, then those that it sent since, whose
   * answers it may have missed.
   */
  #replaceable: readonly string[];
  /** `sourceSha256` of the draft that the last save was refused for. Null: none. */
  #refused: string | null = null;
  readonly #installed = Promise.withResolvers<string>();
  #installation: Installation | null = null;
  /** The installation before it followed the draft; null if it did already, or is new. */
  #replaced: Installation | null = null;

  private constructor({
    folder,
    slug,
    rest,
    pluginId,
    testSession,
    savedDraftFile,
    replaceable,
    startLine,
    outputIds,
  }: DraftOptions) {
    this.slug = slug;
    this.folder = folder;
    this.testSession = testSession;
    this.startLine = startLine;
    this.#outputIds = outputIds;
    this.#rest = rest;
    this.#pluginId = pluginId;
    this.#savedDraftFile = savedDraftFile;
    this.#replaceable = replaceable;
  }

  /** @throws CommandError if there is no package, BulkheadError if the slug is taken */
  static async open(context: Context, path: string | undefined, givenSlug: string | undefined): Promise<Draft> {
    const { folder, slug } = await readPackageFolder(context.folder, path, givenSlug);
    const rest = await context.getRest();
    const plugin =
      (await findPlugin(rest, slug)) ?? (await rest.post<{ id: string }>('/plugins', { slug, displayName: slug }));
    const savedDraftFile = new SavedDraftFile(context.accounts.path, rest.url, plugin.id);
    return new Draft({
      folder,
      slug,
      rest,
      pluginId: plugin.id,
      testSession: await TestSession.open(context),
      savedDraftFile,
      replaceable: await savedDraftFile.read(),
      startLine: await findLastLine(rest, slug),
      outputIds: context.outputIds,
    });
  }

  /** Waits for the first save and returns the id of the installation. @throws the signal's reason */
  waitForInstallation(signal: AbortSignal): Promise<string> {
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    aborted.catch(() => undefined);
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    return Promise.race([this.#installed.promise, aborted]);
  }

  /** Lets the next saves replace the draft that the last one was refused for, and no later one. */
  allowReplacement(): void {
    if (this.#refused !== null) this.#replaceable = [this.#refused];
  }

  /**
   * Saves the folder and waits until the draft runs.
   *
   * @param onSkipped called before the draft is sent, with the binary and large files, which a draft cannot have
   * @throws BulkheadError with the location of each fault, CommandError `draft_changed` if the draft may not be replaced
   */
  async save(onSkipped: (paths: readonly string[]) => void): Promise<SaveResult> {
    const startedAt = performance.now();
    const { files, warnings } = await readPackageFolder(this.folder, undefined, this.slug, this.#outputIds);
    const { texts, skipped } = await readTexts(files);
    onSkipped(skipped);
    const saved = await this.#saveTexts(texts);
    this.#refused = null;
    await this.#setReplaceable([saved.sourceSha256]);
    const savedMs = performance.now() - startedAt;
    this.#installation ??= await this.#install();
    this.#installed.resolve(this.#installation.id);
    await this.#waitForDraft(this.#installation.id);
    return { warnings: [...warnings, ...saved.warnings], savedMs, liveMs: performance.now() - startedAt };
  }

  /**
   * Waits until the draft that was saved last runs.
   *
   * @returns the id of its installation
   * @throws CommandError that says what runs in its place, and what to do
   */
  async requireRunning(): Promise<string> {
    const id = this.#installation?.id ?? (await findInstallation(this.#rest, this.slug))?.id;
    if (id === undefined) throw new CommandError('not_running', NOT_SAVED);
    await this.#waitForDraft(id);
    return id;
  }

  async #waitForDraft(installationId: string): Promise<void> {
    // The policy of an installation that followed the draft was changed since.
    const moved = `Another \`dev\` has ended, or you chose another policy. To run your draft again, run \`bulkhead install ${this.slug} --draft\` in another terminal.`;
    await this.testSession.waitForDraft(installationId, this.#installation ? moved : NOT_SAVED);
  }

  async #saveTexts(files: readonly PackageTexts[]): Promise<SavedDraftAnswer> {
    const [replaces = null, ...sent] = this.#replaceable;
    // Before the request: its answer may be lost, or the command may end before it.
    const hashes = [...new Set([...sent, hashTexts(files)])].slice(-SENT_MAX);
    this.#replaceable = replaces === null ? hashes : [replaces, ...hashes];
    // Another `dev` on this computer may have saved since: it needs its entry when it is started again.
    const stored = [...new Set([...this.#replaceable, ...(await this.#savedDraftFile.read())])];
    await this.#savedDraftFile.write(stored.slice(0, SENT_MAX + 1));
    try {
      return await this.#postDraft(files, replaces);
    } catch (error) {
      if (!hasCode(error, 'draft_changed')) throw error;
    }
    const { draft, versions } = await this.#rest.get<PluginDetail>(`/plugins/${this.#pluginId}`);
    const isPublished = versions.some(
      ({ status, sourceSha256 }) => status === 'published' && sourceSha256 === draft?.sourceSha256,
    );
    if (draft === null || isPublished || this.#replaceable.includes(draft.sourceSha256))
      return this.#postDraft(files, draft?.sourceSha256 ?? null);
    this.#refused = draft.sourceSha256;
    const where = `The draft of ${this.slug}, saved at ${draft.savedAt}, is not the one that this \`dev\` saved last. This folder was not saved.`;
    const advice =
      'To replace that draft with this folder, type `replace`. To see it first, open the plugin in the console.';
    throw new CommandError('draft_changed', `${where} ${advice}`);
  }

  /**
   * Repeating a save is safe: the service accepts one that is the draft already.
   *
   * @param replaces `sourceSha256` of the current draft; null: the plugin has no draft
   */
  #postDraft(files: readonly PackageTexts[], replaces: string | null): Promise<SavedDraftAnswer> {
    return this.#rest.post(`/plugins/${this.#pluginId}/draft`, { files, replaces }, { repeatable: true });
  }

  async #setReplaceable(hashes: readonly string[]): Promise<void> {
    this.#replaceable = hashes;
    await this.#savedDraftFile.write(hashes);
  }

  /** Finds, moves or creates an installation that follows the draft. */
  async #install(): Promise<Installation> {
    const installation = await this.#followDraft(await findInstallation(this.#rest, this.slug));
    if (installation.status !== 'needs_configuration') return installation;
    const reason = installation.statusReason ?? 'A setting or secret is missing.';
    throw new CommandError('not_running', `${reason} Run \`bulkhead configure ${this.slug}\`, then save again.`);
  }

  async #followDraft(known: Installation | null): Promise<Installation> {
    if (known?.versionPolicy === 'Draft') return known;
    const versionPolicy = 'Draft';
    if (known) {
      this.#replaced = known;
      return this.#rest.patch<Installation>(`/installations/${known.id}`, { versionPolicy });
    }
    return this.#rest.post<Installation>('/installations', { slug: this.slug, versionPolicy });
  }

  /** A command that moves the installation back to the policy that it had. Null: it followed the draft before, or is new. */
  get restoreCommand(): string | null {
    if (!this.#replaced) return null;
    const { versionPolicy, currentSemVer } = this.#replaced;
    const pin = versionPolicy === 'Pinned' ? currentSemVer : null;
    return `bulkhead install ${this.slug} ${pin === null ? '--latest' : `--pin ${pin}`}`;
  }

  /**
   * Moves the installation back to the version and the policy that it had before, unless its user has changed it meanwhile.
   *
   * @param rest a client that an interrupted command may still use
   * @param signal ends the wait for the version to start
   * @param onMove called before it is moved
   * @returns null if it does not follow the draft, and `dev` has not moved it
   */
  async restore(rest: Rest, signal: AbortSignal, onMove: () => void): Promise<RestoreResult | null> {
    if (!this.#replaced) {
      const current = this.#installation && (await readInstallation(rest, this.#installation.id));
      return current?.versionPolicy === 'Draft' ? { installation: current, outcome: 'draft' } : null;
    }
    const { id, versionPolicy, pinnedVersionId, currentVersionId } = this.#replaced;
    const current = await readInstallation(rest, id);
    // The request that makes it follow the draft failed.
    if (this.#installation === null && current?.versionPolicy === versionPolicy) return null;
    if (current?.versionPolicy !== 'Draft') return { installation: current, outcome: 'left' };
    onMove();
    // First the version: offered from the draft, the version of the policy would be compared with what the draft may access.
    const pinned = await pinAcceptedVersion(rest, this.#replaced, signal);
    const isPrevious = (now: Installation) => now.currentVersionId === currentVersionId;
    // While the version has not started, the policy stays Pinned: a change of the policy would end its update.
    if (pinned && !isPrevious(pinned)) return { installation: pinned, outcome: 'other' };
    const pin = pinnedVersionId === null ? {} : { pinnedVersionId };
    const installation = await rest.patch<Installation>(`/installations/${id}`, { versionPolicy, ...pin });
    return { installation, outcome: isPrevious(installation) ? 'previous' : 'other' };
  }
}

/** Returns the id of the newest log line of a plugin that is installed already. */
async function findLastLine(rest: Rest, slug: string): Promise<string> {
  const installation = await findInstallation(rest, slug);
  if (!installation) return BEFORE_FIRST_LINE;
  const filter = { installationId: installation.id, levels: [], sessionId: undefined };
  const [last] = await readLastLines(rest, filter, 1);
  return last?.id ?? BEFORE_FIRST_LINE;
}

/** Returns null if it was uninstalled. */
async function readInstallation(rest: Rest, id: string): Promise<Installation | null> {
  try {
    const installation = await rest.get<Installation>(`/installations/${id}`);
    return installation.status === 'uninstalling' ? null : installation;
  } catch (error) {
    if (hasCode(error, 'not_found')) return null;
    throw error;
  }
}

/**
 * Pins the version that an installation ran, which its user has accepted, and waits for its start.
 *
 * @returns null if it cannot be pinned: its author has yanked it, or it was the draft
 */
async function pinAcceptedVersion(
  rest: Rest,
  { id, currentVersionId }: Installation,
  signal: AbortSignal,
): Promise<Installation | null> {
  if (currentVersionId === null) return null;
  const path = `/installations/${id}`;
  const pin = { versionPolicy: 'Pinned', pinnedVersionId: currentVersionId };
  try {
    let pinned = await rest.patch<Installation>(path, pin);
    if (pinned.pendingUpdate?.versionId === currentVersionId)
      pinned = await rest.post<Installation>(`${path}/accept-update`, { versionId: currentVersionId });
    // The service answers after a few seconds also if the version is still starting.
    while (pinned.updateUnderWay?.waitsFor === null && !signal.aborted) {
      await pause(POLL_MS, signal).catch(() => undefined);
      pinned = await rest.get<Installation>(path);
    }
    return pinned;
  } catch (error) {
    if (hasCode(error, 'invalid_pin')) return null;
    throw error;
  }
}

/** Returns the hash that the service computes for a draft of these files. */
function hashTexts(texts: readonly PackageTexts[]): string {
  const files = texts.map(({ path, contentText }) => ({
    path,
    sha256: createHash('sha256').update(contentText).digest('hex'),
  }));
  return hashFileTree(sortByPathBytes(files));
}

/** @throws CommandError before it holds more than a draft may have: the folder may be that of a whole repository */
async function readTexts(files: readonly FolderFile[]) {
  const texts: PackageTexts[] = [];
  const skipped: string[] = [];
  let left = FILE_LIST_MAX_BYTES;
  for (const { path, at } of files) {
    const { size } = await stat(at);
    const contentText = size > FILE_LIST_MAX_BYTES ? null : decodeText(await readFile(at));
    if (contentText === null) {
      skipped.push(path);
      continue;
    }
    const file = { path, contentText };
    left -= countJsonBytes(file);
    if (left < 0) {
      const message = `The text files of the folder have more than ${FILE_LIST_MAX_BYTES / MIB} MB as JSON, the most that a draft may have. Move large files out of the folder, or publish a version.`;
      throw new CommandError('too_large', message, { exit: 'invalidPackage' });
    }
    texts.push(file);
  }
  return { texts, skipped };
}
