import { formatFolder, listNotePaths, readNotes } from './notes.ts';

/** Characters of a result, which may have 256 KiB as JSON: a character takes up to 6 bytes. */
const SHOWN_CHARS = 40_000;
const LINE_CHARS = 200;

const cut = (text: string, max: number): string => text.slice(0, max).toWellFormed();

tools.add = {
  description: 'Keeps a note that all agents can find again.',
  parameters: {
    type: 'object',
    properties: { text: { type: 'string', minLength: 1, maxLength: 20_000, description: 'Markdown' } },
    required: ['text'],
    additionalProperties: false,
  },
  async handler({ text }: { text: string }, ctx) {
    const now = new Date();
    // Sorts by time. Colons are removed, because some systems do not allow them in file names.
    const at = now.toISOString().replaceAll(':', '-');
    const path = `${formatFolder(now)}/${at}-${crypto.randomUUID().slice(0, 8)}.md`;
    await host.workspace.write(path, `${text.trim()}\n\n— ${ctx.agent.name}\n`);
    return `Kept as ${path}`;
  },
};

tools.list = {
  description: 'Lists the newest notes: their files and first lines.',
  parameters: {
    type: 'object',
    properties: { limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
    additionalProperties: false,
  },
  async handler({ limit = 20 }: { limit?: number }) {
    const notes = await readNotes(await listNotePaths(limit));
    const lines = notes.map(({ path, text }) => `${path}: ${cut(text.split('\n')[0] ?? '', LINE_CHARS)}`);
    return lines.join('\n') || 'There are no notes.';
  },
};

tools.search = {
  description: 'Finds notes that hold all of the words.',
  parameters: {
    type: 'object',
    properties: { words: { type: 'string', minLength: 1, maxLength: 200 } },
    required: ['words'],
    additionalProperties: false,
  },
  async handler({ words }: { words: string }) {
    const wanted = words.toLowerCase().split(/\s+/);
    const holds = (text: string) => wanted.every((word) => text.toLowerCase().includes(word));
    const found = (await readNotes(await listNotePaths())).filter(({ text }) => holds(text)).slice(0, 10);
    const shown = found.map(({ path, text }) => `## ${path}\n\n${text}`).join('\n');
    return cut(shown, SHOWN_CHARS) || `No note holds “${words}”.`;
  },
};
