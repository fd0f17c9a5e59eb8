/** What a version offers and asks for, in lines for people; and what changed between two. */
import type { Discovered } from './records.ts';

/** The names of everything a version offers: `tools.roll`, `middleware.systemPrompt`, `channel.receive`. */
export function surfaceOf(discovered: Discovered): string[] {
  const named = (group: string, rows: readonly { readonly name: string }[]) =>
    rows.map(({ name }) => `${group}.${name}`);
  const { channel } = discovered;
  return [
    ...discovered.middleware,
    ...discovered.lifecycle.map((name) => (name.startsWith('events.') ? name : `events.${name}`)),
    ...named('tools', discovered.tools),
    ...named('commands', discovered.commands),
    ...named('skills', discovered.skills),
    ...named('providers', discovered.providers),
    ...(channel ? Object.entries(channel).flatMap(([name, has]) => (has ? [`channel.${name}`] : [])) : []),
  ].sort();
}

/** `offers tools.roll` and, for what it asks for beyond that, `needs host.llm`. */
export function surfaceLines(discovered: Discovered, capabilities: readonly string[]): string[] {
  const needs = capabilities.filter((name) => name.startsWith('host.'));
  return [`offers  ${surfaceOf(discovered).join(', ')}`, ...(needs.length > 0 ? [`needs   ${needs.join(', ')}`] : [])];
}
