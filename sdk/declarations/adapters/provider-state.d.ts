/** Refuses conversations that a model's provider keeps: the provider adds their messages to a request that plugins have already judged. */
/**
 * @param options the options of a model call, or those of it for one provider
 * @throws Error if one of them names a conversation, or an answer to continue, that the provider keeps
 */
export declare function refuseProviderState(options: unknown): void;
