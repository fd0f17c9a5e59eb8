/** Maximum number of notes that are read. */
const READ_MAX = 500;
/** How far back notes are found where `list` cannot list all of them. */
const MONTHS = 24;
/** A child may make 16 host calls at once; this leaves some for other tools. */
const AT_ONCE = 8;

export type Note = { path: string; text: string };

/** Each month has its own folder, because `list` throws for more than 5,000 files. */
export const formatFolder = (at: Date): string => `notes/${at.toISOString().slice(0, 7)}`;

/** Lists the paths of notes, newest first. */
export async function listNotePaths(max = READ_MAX): Promise<string[]> {
  const paths = await listFolder('notes').catch((error: Error) => {
    if (error.message.includes('there are more than')) return listMonths(max);
    throw error;
  });
  return paths.slice(0, max);
}

/** Of too many notes, the newest are in the folders of the last months. */
async function listMonths(max: number): Promise<string[]> {
  const paths: string[] = [];
  const now = new Date();
  for (let back = 0; back < MONTHS && paths.length < max; back += 1) {
    const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back));
    paths.push(...(await listFolder(formatFolder(month))));
  }
  return paths;
}

async function listFolder(folder: string): Promise<string[]> {
  const files = await host.workspace.list(folder).catch((error: Error) => {
    // The folder does not exist before its first note.
    if (error.message.includes('no such file or directory')) return [];
    throw error;
  });
  const paths = files.map(({ path }) => path).filter((path) => path.endsWith('.md'));
  // By name, which begins with the time: an older version of this plugin had no folders for months.
  return paths.sort((a, b) => (nameOf(a) < nameOf(b) ? 1 : -1));
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** Reads notes. Skips one that was removed meanwhile. */
export async function readNotes(paths: readonly string[]): Promise<Note[]> {
  const notes: Note[] = [];
  for (let at = 0; at < paths.length; at += AT_ONCE) {
    const some = paths.slice(at, at + AT_ONCE);
    const texts = await Promise.allSettled(some.map((path) => host.workspace.readText(path)));
    for (const [place, read] of texts.entries()) {
      if (read.status === 'fulfilled') notes.push({ path: some[place] ?? '', text: read.value });
    }
  }
  return notes;
}
