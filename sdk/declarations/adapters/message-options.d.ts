/** Refuses options of messages by which a model gets another content than plugins judge. */
/**
 * A browser may send options with the parts of a message.
 *
 * @param options of a message and its parts, by provider
 * @param field where messages have them
 * @throws Error if one of them replaces what plugins judge
 */
export declare function refuseReplacingOptions(options: readonly unknown[], field: string): void;
