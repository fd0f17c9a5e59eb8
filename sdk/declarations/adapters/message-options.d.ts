/** Refuses options of messages by which a model gets another content than plugins judge. */
/**
 * A browser may send options with the parts of a message.
 *
 * @param options of a message and its parts, by provider
 * @param field where messages have them
 * @throws Error if one of them replaces what plugins judge
 */
export declare function refuseReplacingOptions(options: readonly unknown[], field: string): void;
/**
 * Plugins do not judge the agent's own messages, but those of other roles.
 *
 * @param options of a message of the agent, by provider
 * @param field where messages have them
 * @throws Error if one of them gives the message another role
 */
export declare function refuseOtherRoles(options: unknown, field: string): void;
