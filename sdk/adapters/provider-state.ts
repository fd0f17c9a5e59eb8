/** Refuses conversations that a model's provider keeps: the provider adds their messages to a request that plugins have already judged. */

const STATE_OPTIONS: ReadonlySet<string> = new Set([
  'previousresponseid',
  'conversation',
  'conversationid',
  'previousinteractionid',
  'thread',
]);

/**
 * @param options the options of a model call, or those of it for one provider
 * @throws Error if one of them names a conversation, or an answer to continue, that the provider keeps
 */
export function refuseProviderState(options: unknown): void {
  const kept = Object.entries(options ?? {}).find(
    ([name, value]) => STATE_OPTIONS.has(name.replaceAll('_', '').toLowerCase()) && (value ?? '') !== '',
  );
  if (kept)
    throw new Error(
      `The option “${kept[0]}” makes the model's provider add messages that plugins have not judged. ` +
        'Leave it out, and pass the whole conversation with each call.',
    );
}
