/** Lists and formats what a version offers and needs. */
import type { Discovered } from './rest-types.ts';

/** Lists everything that a version offers, such as `tools.roll`, `middleware.systemPrompt` or `channel.receive`. */
export function listDiscovered(discovered: Discovered): string[] {
  const withPrefix = (group: string, rows: readonly { readonly name: string }[]) =>
    rows.map(({ name }) => `${group}.${name}`);
  const { channel } = discovered;
  return [
    ...discovered.middleware,
    ...discovered.lifecycle.map((name) => (name.startsWith('events.') ? name : `events.${name}`)),
    ...withPrefix('tools', discovered.tools),
    ...withPrefix('commands', discovered.commands),
    ...withPrefix('skills', discovered.skills),
    ...withPrefix('providers', discovered.providers),
    ...(channel ? Object.entries(channel).flatMap(([name, has]) => (has ? [`channel.${name}`] : [])) : []),
  ].sort();
}

/** The capabilities that users grant or give, such as `host.llm` or `secrets.key`; all others follow from what it offers. */
export const listNeeds = (capabilities: readonly string[]): string[] =>
  capabilities.filter((name) => /^(host|secrets)\./.test(name));

/** Formats two lines, such as `offers  tools.roll` and `needs   host.llm`. */
export function formatDiscovered(discovered: Discovered, capabilities: readonly string[]): string[] {
  const needs = listNeeds(capabilities);
  return [
    `offers  ${listDiscovered(discovered).join(', ')}`,
    ...(needs.length > 0 ? [`needs   ${needs.join(', ')}`] : []),
  ];
}
