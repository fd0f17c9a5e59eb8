/** What was dropped: one zip, or the files of a folder as text. */
export interface TextFile {
  readonly path: string;
  readonly contentText: string;
}
export type Dropped = { readonly zip: File } | { readonly files: readonly TextFile[] };

/** Folders of tools, which are no part of a package. */
const NOT_PACKED = /(^|\/)(node_modules|\.git|__MACOSX)\/|(^|\/)(\.DS_Store|Thumbs\.db)$/;

/** @throws Error that says which file is no text */
export async function readDropped(given: readonly File[]): Promise<Dropped> {
  const [first] = given;
  if (given.length === 1 && first?.name.toLowerCase().endsWith('.zip')) return { zip: first };
  const located = given.map((file) => ({ file, path: drawLine(file) })).filter(({ path }) => !NOT_PACKED.test(path));
  const wrapper = wrapperOf(located.map(({ path }) => path));
  const files = located.map(async ({ file, path }) => ({
    path: path.slice(wrapper.length),
    contentText: await readText(file, path),
  }));
  return { files: await Promise.all(files) };
}

function drawLine(file: File & { path?: string }): string {
  return (file.webkitRelativePath || file.path || file.name).replace(/^\.?\//, '');
}

/** The folder that was dropped is not part of the paths in it. */
function wrapperOf(paths: readonly string[]): string {
  const first = paths[0]?.split('/')[0];
  const wrapper = `${first}/`;
  return paths.length > 0 && paths.every((path) => path.startsWith(wrapper)) ? wrapper : '';
}

async function readText(file: File, path: string): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${path} is no text. Pack the folder as a zip and drop that: a zip may hold any files.`);
  }
}
