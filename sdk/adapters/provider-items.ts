/** Items in the form of OpenAI's Responses API, which frameworks pass on as they are. */

/** Fields of an item of a conversation. */
export interface ProviderItem {
  readonly role?: unknown;
  readonly type?: unknown;
}

/** Whether an item is a message of another role than the agent's, a result of a tool, or a reference to an item that the provider keeps. */
export function isForeignItem({ role, type }: ProviderItem): boolean {
  const hasRole = role !== undefined && role !== null;
  if (hasRole && role !== 'assistant') return true;
  // A reference may have an id only.
  if (typeof type !== 'string') return !hasRole;
  return type === 'item_reference' || type.endsWith('_output');
}
