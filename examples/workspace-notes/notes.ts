/** Notes that are read at most: all of them, for most people. */
const READ_MAX = 500;
/** A child may make 16 host calls at once, and other tools want some too. */
const AT_ONCE = 8;

export type Note = { path: string; text: string };

/** The paths of the notes, newest first. */
export async function noteFiles(): Promise<string[]> {
  const files = await host.workspace.list('notes').catch((error: Error) => {
    // A directory is there once it holds a file: before the first note there is none.
    if (error.message.includes('no such file or directory')) return [];
    throw error;
  });
  const paths = files.map(({ path }) => path).filter((path) => path.endsWith('.md'));
  return paths.reverse().slice(0, READ_MAX);
}

/** Reads notes. One that was removed meanwhile is left out. */
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
