middleware.toolCall = ({ call, settings, cancel }) => {
  const refused = (settings.refuse ?? '').split(',').map((name) => name.trim());
  if (refused.some((pattern) => isMatch(call.name, pattern))) cancel(`The tool ${call.name} may not be used here.`);
};

middleware.toolResult = ({ result }) => {
  const content = result.content.map((part) => {
    if (part.type === 'text') return { ...part, text: hideKeys(part.text) };
    return part.type === 'json' ? { ...part, json: hideKeysInJson(part.json) } : part;
  });
  return { result: { content } };
};

const isMatch = (name: string, pattern: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

/** The keys of GitHub, AWS and Slack. */
const KEYS = /\bgh[pousr]_\w{36}|\bAKIA[A-Z0-9]{16}\b|\bxox[abp]-[\w-]{10,}/g;
const hideKeys = (text: string): string => text.replace(KEYS, '[key]');

/** Hides keys in all texts of a value, also in the names of its fields. */
function hideKeysInJson(value: Bulkhead.Json): Bulkhead.Json {
  if (typeof value === 'string') return hideKeys(value);
  if (Array.isArray(value)) return value.map(hideKeysInJson);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [hideKeys(name), hideKeysInJson(field)]));
}
