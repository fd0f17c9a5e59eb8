/** Reads a chosen or dropped package: one zip, or the text files of a folder. */
import { FILE_LIST_MAX_BYTES } from '../../sdk/contract/limits.ts';
import { isToolFile } from '../../sdk/contract/package-paths.ts';
import { formatBytes } from '../style/format-bytes.ts';

export interface TextFile {
  readonly path: string;
  readonly contentText: string;
}
export type Dropped = { readonly zip: File } | { readonly files: readonly TextFile[] };

/** @throws Error with a sentence for the user if there is no file, one is not text or cannot be read, or they are too large */
export async function readDropped(given: readonly File[]): Promise<Dropped> {
  const [first] = given;
  if (given.length === 1 && first?.name.toLowerCase().endsWith('.zip')) return { zip: first };
  const located = given
    .map((file) => ({ file, path: readPath(file) }))
    // Beside a dropped folder, a file such as .DS_Store does not count.
    .filter(({ path }) => path.includes('/') || !isToolFile(path));
  const wrapper = findWrapper(located.map(({ path }) => path));
  const kept = located
    .map(({ file, path }) => ({ file, path: path.slice(wrapper.length) }))
    .filter(({ path }) => !isToolFile(path));
  if (kept.length === 0) throw new Error('No file was found. Choose the folder that contains readme.md and index.ts.');
  checkSize(
    kept.reduce((sum, { file }) => sum + file.size, 0),
    '',
  );
  const files = await Promise.all(
    kept.map(async ({ file, path }) => ({ path, contentText: await readText(file, path) })),
  );
  // The limit is one of JSON, in which a line break or a quote takes two bytes.
  checkSize(new Blob([JSON.stringify(files)]).size, ' as JSON');
  return { files };
}

/** @throws Error with a sentence for the user */
function checkSize(bytes: number, format: string): void {
  if (bytes > FILE_LIST_MAX_BYTES)
    throw new Error(
      `The files of the folder have ${formatBytes(bytes)}${format}, and a folder may have ${formatBytes(FILE_LIST_MAX_BYTES)}. Drop it as a zip instead.`,
    );
}

function readPath(file: File & { path?: string }): string {
  return (file.webkitRelativePath || file.path || file.name).replace(/^\.?\//, '');
}

/** Returns the name of the dropped folder with a slash if all paths start with it: it is not part of the package’s paths. */
function findWrapper(paths: readonly string[]): string {
  const first = paths[0]?.split('/')[0];
  const wrapper = `${first}/`;
  return paths.length > 0 && paths.every((path) => path.startsWith(wrapper)) ? wrapper : '';
}

async function readText(file: File, path: string): Promise<string> {
  const content = await file.arrayBuffer().catch(() => {
    throw new Error(`${path} could not be read. If it was changed or moved, choose the folder again.`);
  });
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    throw new Error(`${path} is not a text file. Drop the folder as a zip instead: a zip can have binary files.`);
  }
}

/**
 * The browser refuses to send a file that was changed since it was chosen, with the same error as when the service is away.
 *
 * @throws Error with a sentence for the user if it was changed
 */
export async function checkReadable(zip: File): Promise<void> {
  await zip
    .slice(0, 1)
    .arrayBuffer()
    .catch(() => {
      throw new Error(`${zip.name} could not be read. If it was changed or moved, choose it again.`);
    });
}

/** Packages that are remembered of saves without response: during an outage each attempt may have another, of many megabytes. */
const UNANSWERED_MAX = 8;

/** Adds a package, the newest last, which the service is most likely to have. */
export const rememberUnanswered = (unanswered: readonly Dropped[], sent: Dropped): readonly Dropped[] =>
  [...unanswered.filter((other) => other !== sent), sent].slice(-UNANSWERED_MAX);

/** Whether both have the same paths with the same texts, in any order. */
export function hasSameFiles(some: readonly TextFile[], others: readonly TextFile[]): boolean {
  // The editor compares at each keystroke, and a package may have thousands of files.
  const texts = new Map(others.map(({ path, contentText }) => [path, contentText]));
  return some.length === others.length && some.every(({ path, contentText }) => texts.get(path) === contentText);
}
