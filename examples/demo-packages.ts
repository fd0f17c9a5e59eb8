/** Publishes and installs the example packages. Can be repeated. */
import { globSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ZipFile } from 'yazl';
import type { Installation, Plugin, PluginDetail, Version } from '../sdk/cli/rest-types.ts';
import { comparePrecedence, raiseVersion } from '../sdk/contract/version-numbers.ts';
import type { Page } from '../sdk/session/api-types.ts';
import { hasCode } from '../sdk/session/transport.ts';
import { eventually } from './demo-checks.ts';
import type { Service } from './demo-service.ts';

/** The files of a package: `readme.md`, `index.ts` and what they import. */
export interface Package {
  readonly slug: string;
  readonly files: readonly { readonly path: string; readonly bytes: Buffer }[];
}

/** Lists all examples: the folders with a readme. */
export const listExamples = (): string[] =>
  globSync('*/readme.md', { cwd: fileURLToPath(new URL('.', import.meta.url)) })
    .map(dirname)
    .sort();

/** Reads an example from its folder. */
export async function readPackage(slug: string): Promise<Package> {
  const folder = fileURLToPath(new URL(`./${slug}/`, import.meta.url));
  const names = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  const paths = names.map((entry) => `${entry.parentPath}/${entry.name}`.slice(folder.length).replace(/^\//, ''));
  const files = paths.sort().map(async (path) => ({ path, bytes: await readFile(folder + path) }));
  return { slug, files: await Promise.all(files) };
}

/** Finds the plugin of a slug, or creates it. */
export async function ensurePlugin(api: Service, slug: string): Promise<Plugin> {
  try {
    // Its readme names and describes the plugin from the first version on.
    return await api.post<Plugin>('/plugins', { slug, displayName: slug });
  } catch (error) {
    if (!hasCode(error, 'slug_taken')) throw error;
  }
  const { items } = await api.get<Page<Plugin>>('/plugins?limit=1000');
  const own = items.find((plugin) => plugin.slug === slug || plugin.slug.startsWith(`${slug}-demo-`));
  // The slug belongs to another account: add a suffix.
  return own ?? ensurePlugin(api, `${slug}-demo-${crypto.randomUUID().slice(0, 8)}`);
}

/** Returns the next unused version number, because a number can never be reused. */
export async function nextSemVer(api: Service, plugin: Plugin): Promise<string> {
  const { versions } = await api.get<PluginDetail>(`/plugins/${plugin.id}`);
  const highest = versions
    .map(({ semVer }) => semVer)
    .toSorted(comparePrecedence)
    .at(-1);
  return highest === undefined ? '1.0.0' : raiseVersion(highest, 'patch');
}

/** Publishes as a list of text files. */
export function publishFiles(api: Service, plugin: Plugin, semVer: string, { files }: Package): Promise<Version> {
  const texts = files.map(({ path, bytes }) => ({ path, contentText: bytes.toString('utf8') }));
  return api.post<Version>(`/plugins/${plugin.id}/versions`, { semVer, files: texts });
}

/** Publishes as a zip, which can contain binary assets. */
export async function publishZip(api: Service, plugin: Plugin, semVer: string, wanted: Package): Promise<Version> {
  const zip = new ZipFile();
  for (const { path, bytes } of wanted.files) zip.addBuffer(bytes, `${wanted.slug}/${path}`);
  zip.end();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for await (const chunk of zip.outputStream) chunks.push(new Uint8Array(chunk as Buffer));
  const form = new FormData();
  form.set('semVer', semVer);
  form.set('file', new Blob(chunks, { type: 'application/zip' }), `${wanted.slug}.zip`);
  return api.postForm<Version>(`/plugins/${plugin.id}/versions/zip`, form);
}

/** Installs the plugin, or finds the installation, which follows the newest version. */
export async function ensureInstalled(api: Service, slug: string): Promise<Installation> {
  return (await findInstallation(api, slug)) ?? install(api, slug);
}

/** Installs the plugin with default settings. */
export const install = (api: Service, slug: string): Promise<Installation> =>
  api.post<Installation>('/installations', { slug, versionPolicy: 'Latest' });

/** @throws Error if the plugin is installed: the demo would change its settings and uninstall it */
export async function requireNotInstalled(api: Service, slug: string): Promise<void> {
  if (!(await findInstallation(api, slug))) return;
  throw new Error(
    `${slug} is already installed for this user, and the demo would change its settings and uninstall it. ` +
      'To keep it, run the demo for another user: TOKEN=$(npm run -s token -- another-user) npm run demo. ' +
      'To replace it, run npm run demo -- --replace',
  );
}

/** Uninstalls the plugin if it is installed, and installs it with default settings. */
export async function reinstall(api: Service, slug: string): Promise<Installation> {
  const kept = await findInstallation(api, slug);
  if (kept) await uninstall(api, kept);
  return install(api, slug);
}

/** Uninstalls, and waits until the plugin got its last event and everything is removed. */
export async function uninstall(api: Service, { id }: Installation): Promise<void> {
  await api.delete(`/installations/${id}`);
  const isGone = (rest: readonly Installation[]) => !rest.some((installation) => installation.id === id);
  await eventually(() => listInstallations(api), isGone, 'the installation to be gone');
}

async function findInstallation(api: Service, slug: string): Promise<Installation | undefined> {
  return (await listInstallations(api)).find((installation) => installation.slug === slug);
}

async function listInstallations(api: Service): Promise<readonly Installation[]> {
  const { items } = await api.get<Page<Installation>>('/installations?limit=1000');
  return items;
}

/** Formats the registrations of a version: `middleware.systemPrompt`, `tools roll`. */
export function registered({ discovered }: Version): string {
  const words = Object.entries(discovered).flatMap(([kind, found]) => {
    const names = Array.isArray(found) ? found.map(formatName) : [];
    return names.map((name) => (name.startsWith(kind) ? name : `${kind} ${name}`));
  });
  return words.join(', ') || 'nothing';
}

function formatName(item: unknown): string {
  if (typeof item === 'object' && item !== null && 'name' in item) return String(item.name);
  return String(item);
}
