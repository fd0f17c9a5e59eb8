/** The draft that an author's folder is: made and installed for its author when it is first saved, saved again from then on. */
import { readFile } from 'node:fs/promises';
import { decodeText } from '../../contract/text-bytes.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { findPlugin } from '../own-plugins.ts';
import { openFolder } from '../package-folder.ts';
import type { Installation } from '../records.ts';
import type { Rest } from '../rest.ts';
import type { FolderFile } from '../toolbox.ts';
import { Trials } from '../trials.ts';

export interface Saved {
  readonly warnings: readonly string[];
  /** Files that are no text: a draft has none of them. */
  readonly leftOut: readonly string[];
  /** From the beginning of the save until the service had built and kept it, and until it served. Milliseconds. */
  readonly savedMs: number;
  readonly liveMs: number;
}

export class Draft {
  readonly slug: string;
  readonly trials: Trials;
  readonly #folder: string;
  readonly #rest: Rest;
  readonly #pluginId: string;
  readonly #installed = Promise.withResolvers<string>();
  #installation: Installation | null = null;

  private constructor(of: { folder: string; slug: string; rest: Rest; pluginId: string; trials: Trials }) {
    this.slug = of.slug;
    this.trials = of.trials;
    this.#folder = of.folder;
    this.#rest = of.rest;
    this.#pluginId = of.pluginId;
  }

  /** @throws CommandError and BulkheadError: there is no package, the slug is somebody else's */
  static async open(context: Context, given: string | undefined, named: string | undefined): Promise<Draft> {
    const { folder, slug } = await openFolder(context.folder, given, named);
    const rest = await context.rest();
    const plugin =
      (await findPlugin(rest, slug)) ?? (await rest.post<{ id: string }>('/plugins', { slug, displayName: slug }));
    return new Draft({ folder, slug, rest, pluginId: plugin.id, trials: await Trials.open(context) });
  }

  get folder(): string {
    return this.#folder;
  }

  /** Of its own installation; null before it was saved. */
  get installationId(): string | null {
    return this.#installation?.id ?? null;
  }

  /** The id of its installation, as soon as there is one. @throws the signal's reason */
  installed(signal: AbortSignal): Promise<string> {
    const { promise: gone, reject } = Promise.withResolvers<never>();
    gone.catch(() => undefined);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    return Promise.race([this.#installed.promise, gone]);
  }

  /** Saves what lies in the folder. Resolves when that serves. @throws BulkheadError with the places of faults */
  async save(): Promise<Saved> {
    const startedAt = performance.now();
    const { files } = await openFolder(this.#folder, undefined, this.slug);
    const { texts, leftOut } = await readTexts(files);
    const { warnings } = await this.#rest.post<{ warnings: readonly string[] }>(`/plugins/${this.#pluginId}/draft`, {
      files: texts,
    });
    const savedMs = performance.now() - startedAt;
    this.#installation ??= await this.#install();
    this.#installed.resolve(this.#installation.id);
    await this.trials.wake(this.#installation.id);
    return { warnings, leftOut, savedMs, liveMs: performance.now() - startedAt };
  }

  /** An installation that follows the draft: there is one, or one is moved or made. */
  async #install(): Promise<Installation> {
    const all = await this.#rest.all<Installation>('/installations');
    const known = all.find(({ slug }) => slug === this.slug);
    const policy = { versionPolicy: 'Draft' };
    if (!known)
      return this.#ready(await this.#rest.post<Installation>('/installations', { slug: this.slug, ...policy }));
    if (known.versionPolicy === 'Draft') return this.#ready(known);
    return this.#ready(await this.#rest.patch<Installation>(`/installations/${known.id}`, policy));
  }

  #ready(installation: Installation): Installation {
    if (installation.status !== 'needs_configuration') return installation;
    const reason = installation.statusReason ?? 'A setting or secret is missing.';
    throw new CommandError('not_running', `${reason} Run \`bulkhead configure ${this.slug}\`, and save again.`);
  }
}

async function readTexts(files: readonly FolderFile[]) {
  const texts: { path: string; contentText: string }[] = [];
  const leftOut: string[] = [];
  for (const { path, at } of files) {
    const contentText = decodeText(await readFile(at));
    if (contentText === null) leftOut.push(path);
    else texts.push({ path, contentText });
  }
  return { texts, leftOut };
}
