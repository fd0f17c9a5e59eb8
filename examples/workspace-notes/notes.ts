/** Maximum number of notes that are read. */
const READ_MAX = 500;
/** A child may make 16 host calls at once; this leaves some for other tools. */
const AT_ONCE = 8;

export type Note = { path: string; text: string };

/** Lists the paths of the notes. Names begin with the time and `list` sorts by path, so the reverse is newest first. */
export async function listNotePaths(): Promise<string[]> {
  const files = await host.workspace.list('notes').catch((error: Error) => {
    // The directory does not exist before the first note.
    if (error.message.includes('no such file or directory')) return [];
    throw error;
  });
  const paths = files.map(({ path }) => path).filter((path) => path.endsWith('.md'));
  return paths.reverse().slice(0, READ_MAX);
}

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
