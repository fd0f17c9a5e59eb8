/** Reads a chosen or dropped package: one zip, or the text files of a folder. */
export interface TextFile {
  readonly path: string;
  readonly contentText: string;
}
export type Dropped = { readonly zip: File } | { readonly files: readonly TextFile[] };

/** Files that are not part of a package. */
const EXCLUDED = /(^|\/)(node_modules|\.git|__MACOSX)\/|(^|\/)(\.DS_Store|Thumbs\.db)$/;

/** @throws Error that names the file that is not text */
export async function readDropped(given: readonly File[]): Promise<Dropped> {
  const [first] = given;
  if (given.length === 1 && first?.name.toLowerCase().endsWith('.zip')) return { zip: first };
  const located = given.map((file) => ({ file, path: readPath(file) })).filter(({ path }) => !EXCLUDED.test(path));
  const wrapper = findWrapper(located.map(({ path }) => path));
  const files = located.map(async ({ file, path }) => ({
    path: path.slice(wrapper.length),
    contentText: await readText(file, path),
  }));
  return { files: await Promise.all(files) };
}

function readPath(file: File & { path?: string }): string {
  return (file.webkitRelativePath || file.path || file.name).replace(/^\.?\//, '');
}

/** Returns the dropped folder, which is not part of the paths. */
function findWrapper(paths: readonly string[]): string {
  const first = paths[0]?.split('/')[0];
  const wrapper = `${first}/`;
  return paths.length > 0 && paths.every((path) => path.startsWith(wrapper)) ? wrapper : '';
}

async function readText(file: File, path: string): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${path} is not a text file. Drop the folder as a zip instead: a zip can have binary files.`);
  }
}
