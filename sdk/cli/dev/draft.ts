/** Saves a package folder as the author's draft, and installs the draft for its author. */
import { readFile } from 'node:fs/promises';
import { decodeText } from '../../contract/text-bytes.ts';
import { pause } from '../../session/pause.ts';
import { hasCode } from '../../session/transport.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import type { FolderFile } from '../local-tools.ts';
import { findPlugin } from '../lookup.ts';
import { readPackageFolder } from '../package-folder.ts';
import type { Rest } from '../rest.ts';
import type { Installation } from '../rest-types.ts';
import { TestSession } from '../test-session.ts';

/** Interval at which a version that starts slowly is looked up. Milliseconds. */
const POLL_MS = 250;

interface SaveResult {
  readonly warnings: readonly string[];
  /** Binary files, which a draft cannot have. */
  readonly skipped: readonly string[];
  /** Until the service had built and stored the draft, milliseconds. */
  readonly savedMs: number;
  /** Until the draft was running, milliseconds. */
  readonly liveMs: number;
}

interface RestoreResult {
  readonly installation: Installation;
  /** Whether it runs the version that it ran before the draft. */
  readonly isPrevious: boolean;
}

export class Draft {
  readonly slug: string;
  readonly folder: string;
  readonly testSession: TestSession;

  readonly #rest: Rest;
  readonly #pluginId: string;
  readonly #installed = Promise.withResolvers<string>();
  #installation: Installation | null = null;
  /** The installation before it followed the draft; null if it did already, or is new. */
  #replaced: Installation | null = null;

  private constructor(folder: string, slug: string, rest: Rest, pluginId: string, testSession: TestSession) {
    this.slug = slug;
    this.folder = folder;
    this.testSession = testSession;
    this.#rest = rest;
    this.#pluginId = pluginId;
  }

  /** @throws CommandError if there is no package, BulkheadError if the slug is taken */
  static async open(context: Context, path: string | undefined, givenSlug: string | undefined): Promise<Draft> {
    const { folder, slug } = await readPackageFolder(context.folder, path, givenSlug);
    const rest = await context.getRest();
    const plugin =
      (await findPlugin(rest, slug)) ?? (await rest.post<{ id: string }>('/plugins', { slug, displayName: slug }));
    return new Draft(folder, slug, rest, plugin.id, await TestSession.open(context));
  }

  /** Null before the first save. */
  get installationId(): string | null {
    return this.#installation?.id ?? null;
  }

  /** Waits for the first save and returns the id of the installation. @throws the signal's reason */
  waitForInstallation(signal: AbortSignal): Promise<string> {
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    aborted.catch(() => undefined);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    return Promise.race([this.#installed.promise, aborted]);
  }

  /** Saves the folder and waits until the draft runs. @throws BulkheadError with the location of each fault */
  async save(): Promise<SaveResult> {
    const startedAt = performance.now();
    const { files, warnings } = await readPackageFolder(this.folder, undefined, this.slug);
    const { texts, skipped } = await readTexts(files);
    const saved = await this.#rest.post<{ warnings: readonly string[] }>(`/plugins/${this.#pluginId}/draft`, {
      files: texts,
    });
    const savedMs = performance.now() - startedAt;
    this.#installation ??= await this.#install();
    this.#installed.resolve(this.#installation.id);
    await this.testSession.waitForDraft(this.#installation.id);
    return { warnings: [...warnings, ...saved.warnings], skipped, savedMs, liveMs: performance.now() - startedAt };
  }

  /** Finds, moves or creates an installation that follows the draft. */
  async #install(): Promise<Installation> {
    const all = await this.#rest.getAll<Installation>('/installations');
    const known = all.find(({ slug }) => slug === this.slug);
    const installation = await this.#followDraft(known);
    if (installation.status !== 'needs_configuration') return installation;
    const reason = installation.statusReason ?? 'A setting or secret is missing.';
    throw new CommandError('not_running', `${reason} Run \`bulkhead configure ${this.slug}\`, then save again.`);
  }

  async #followDraft(known: Installation | undefined): Promise<Installation> {
    if (known?.versionPolicy === 'Draft') return known;
    const versionPolicy = 'Draft';
    if (known) {
      this.#replaced = known;
      return this.#rest.patch<Installation>(`/installations/${known.id}`, { versionPolicy });
    }
    return this.#rest.post<Installation>('/installations', { slug: this.slug, versionPolicy });
  }

  /**
   * Moves the installation back to the version and the policy that it had before.
   *
   * @param rest a client that an interrupted command may still use
   * @param signal ends the wait for the version to start
   * @returns null if it ran the draft before, or is new
   */
  async restore(rest: Rest, signal: AbortSignal): Promise<RestoreResult | null> {
    if (!this.#replaced) return null;
    const { id, versionPolicy, pinnedVersionId, currentVersionId } = this.#replaced;
    // First the version: offered from the draft, the version of the policy would be compared with what the draft may access.
    const pinned = await pinAcceptedVersion(rest, this.#replaced, signal);
    const isPrevious = (now: Installation) => now.currentVersionId === currentVersionId;
    // While the version has not started, the policy stays Pinned: a change of the policy would end its update.
    if (pinned && !isPrevious(pinned)) return { installation: pinned, isPrevious: false };
    const pin = pinnedVersionId === null ? {} : { pinnedVersionId };
    const installation = await rest.patch<Installation>(`/installations/${id}`, { versionPolicy, ...pin });
    return { installation, isPrevious: isPrevious(installation) };
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

async function readTexts(files: readonly FolderFile[]) {
  const texts: { path: string; contentText: string }[] = [];
  const skipped: string[] = [];
  for (const { path, at } of files) {
    const contentText = decodeText(await readFile(at));
    if (contentText === null) skipped.push(path);
    else texts.push({ path, contentText });
  }
  return { texts, skipped };
}
