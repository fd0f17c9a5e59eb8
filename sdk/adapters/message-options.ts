/** Refuses options of messages by which a model gets another content than plugins judge. */

/** Options by which some providers replace the content, the role or the type of a message or a part. */
const REPLACING_OPTIONS: ReadonlySet<string> = new Set([
  'role',
  'type',
  'content',
  'text',
  'file',
  'image_url',
  'video_url',
  'audio_url',
  'input_audio',
  'tool_call_id',
]);

/**
 * A browser may send options with the parts of a message.
 *
 * @param options of a message and its parts, by provider
 * @param field where messages have them
 * @throws Error if one of them replaces what plugins judge
 */
export function refuseReplacingOptions(options: readonly unknown[], field: string): void {
  const names = listOptions(options).map(([name]) => name);
  const replacing = names.find((name) => REPLACING_OPTIONS.has(name));
  if (replacing !== undefined)
    throw new Error(
      `A message has the provider option “${replacing}”, which replaces what plugins judge. Leave it out of ${field}.`,
    );
}

/**
 * Plugins do not judge the agent's own messages, but those of other roles.
 *
 * @param options of a message of the agent, by provider
 * @param field where messages have them
 * @throws Error if one of them gives the message another role
 */
export function refuseOtherRoles(options: unknown, field: string): void {
  if (listOptions([options]).some(([name, value]) => name === 'role' && value !== 'assistant'))
    throw new Error(
      `A message of the agent has the provider option “role”, which makes it a message that plugins judge. Leave it out of ${field}.`,
    );
}

/** Data of a provider that is no object has no options. It may be a long text. */
const listOptions = (options: readonly unknown[]): [name: string, value: unknown][] =>
  options
    .flatMap((one) => Object.values(Object(one)))
    .flatMap((of) => (typeof of === 'string' ? [] : Object.entries(Object(of))));
