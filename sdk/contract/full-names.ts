/** Full names, by which sessions and models call the tools, commands, providers and skills of plugins. */

/** Model APIs refuse a request with a tool whose name is longer or has other characters than these. */
export const TOOL_NAME_MAX_CHARS = 64;
/** Longest slug of a plugin, which is a part of such names. Characters. */
export const SLUG_MAX_CHARS = 64;
const TOOL_NAME = /^[a-zA-Z0-9_-]*$/;

/** The groups of the host's own tools: `todo` for `todo__create`. No plugin can have such a slug. */
export const hostToolGroups = ['todo', 'notify', 'agent', 'ssh'] as const;

/** Unambiguous, because no slug and no name contains `__`. */
export const formatFullName = ({ slug }: { readonly slug: string }, name: string): string => `${slug}__${name}`;

/** Returns why a model API would refuse a tool, as the end of a sentence; null if it would not. */
export function findToolNameFault(plugin: { readonly slug: string }, tool: string): string | null {
  const name = formatFullName(plugin, tool);
  if (name.length > TOOL_NAME_MAX_CHARS) {
    return `is called “${name}” in sessions, which has ${name.length} characters: model APIs accept at most ${TOOL_NAME_MAX_CHARS}. Shorten its name, or the plugin’s slug`;
  }
  if (TOOL_NAME.test(name)) return null;
  return `is called “${name}” in sessions: model APIs accept only letters, digits, “_” and “-”`;
}
