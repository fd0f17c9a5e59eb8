import { listNotePaths, readNotes } from './notes.ts';

tools.add = {
  description: 'Keeps a note that all agents can find again.',
  parameters: {
    type: 'object',
    properties: { text: { type: 'string', minLength: 1, maxLength: 20_000, description: 'Markdown' } },
    required: ['text'],
    additionalProperties: false,
  },
  async handler({ text }: { text: string }, ctx) {
    // Sorts by time. Colons are removed, because some systems do not allow them in file names.
    const at = new Date().toISOString().replaceAll(':', '-');
    const path = `notes/${at}-${crypto.randomUUID().slice(0, 8)}.md`;
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
    const notes = await readNotes((await listNotePaths()).slice(0, limit));
    return notes.map(({ path, text }) => `${path}: ${text.split('\n')[0]}`).join('\n') || 'There are no notes.';
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
    return found.map(({ path, text }) => `## ${path}\n\n${text}`).join('\n') || `No note holds “${words}”.`;
  },
};
