/** Formats the messages of a chat as a page. */
export function formatPage(messages: readonly Bulkhead.TranscriptMessage[], remark: string): string {
  const spoken = messages.filter(({ role }) => role === 'user' || role === 'assistant');
  const counts = Map.groupBy(spoken, ({ role }) => role);
  const lines = [
    `# ${(spoken[0]?.at ?? new Date().toISOString()).slice(0, 10)}`,
    `${counts.get('user')?.length ?? 0} messages of people, ${counts.get('assistant')?.length ?? 0} of the agent.`,
    ...spoken.slice(0, 1).map(({ text }) => `It began with “${short(text)}”.`),
    ...spoken
      .slice(1)
      .slice(-1)
      .map(({ text }) => `It ended with “${short(text)}”.`),
    remark.trim(),
  ];
  return `${lines.filter((line) => line !== '').join('\n\n')}\n`;
}

const short = (text: string): string => (text.length > 80 ? `${text.slice(0, 79).toWellFormed()}…` : text);
