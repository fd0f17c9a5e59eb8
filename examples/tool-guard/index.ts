middleware.toolCall = ({ call, settings, cancel }) => {
  const refused = (settings.refuse ?? '').split(',').map((name) => name.trim());
  if (refused.some((pattern) => isMatch(call.name, pattern))) cancel(`The tool ${call.name} may not be used here.`);
};

middleware.toolResult = ({ result }) => {
  const content = result.content.map((part) => (part.type === 'text' ? { ...part, text: hideKeys(part.text) } : part));
  return { result: { content } };
};

const isMatch = (name: string, pattern: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

/** The keys of GitHub, AWS and Slack. */
const KEYS = /\bgh[pousr]_\w{36}|\bAKIA[A-Z0-9]{16}\b|\bxox[abp]-[\w-]{10,}/g;
const hideKeys = (text: string): string => text.replace(KEYS, '[key]');
