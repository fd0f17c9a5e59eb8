import { formatPage } from './page.ts';

commands.write = {
  description: 'Writes a page of the diary about this chat',
  async handler(input) {
    const { name, page } = await thisChat(input);
    // Awaited, because the process may be stopped once the handler has returned, and work that is not finished ends with it.
    await writePage(name, page);
    await host.session.post(page);
    // Notices are for people; models do not see them.
    await host.session.notice(`The diary keeps this page as diary/${name}.`);
    return 'The page is written.';
  },
};

// Awaited, because the messages are deleted when this handler returns.
middleware.sessionClear = async ({ reason }) => {
  const { name, page } = await thisChat(reason && `Cleared: ${reason}`);
  await writePage(name, page);
};

events.sessionDeleted = ({ occurredAt, data }) =>
  // The name depends on the event's id, so a repeated delivery writes the same file.
  writePage(`${data.sessionId}-deleted.md`, `Deleted on ${occurredAt}.\n`);

async function thisChat(remark: string): Promise<{ name: string; page: string }> {
  const [{ id }, messages] = await Promise.all([host.session.get(), host.session.messages(1_000)]);
  return { name: `${id}.md`, page: formatPage(messages, remark) };
}

async function writePage(name: string, text: string): Promise<void> {
  await host.workspace.write(`diary/${name}`, text);
  host.log('Kept a page', { name });
}
