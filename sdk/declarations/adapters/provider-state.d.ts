/** Refuses conversations that a model's provider keeps: it adds their messages to a request when plugins have judged it. */
/**
 * @param options of a call of the model, also of one provider
 * @throws Error if one of them names a conversation, or an answer to continue, that the provider keeps
 */
export declare function refuseProviderState(options: unknown): void;
