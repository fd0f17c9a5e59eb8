/** Texts that the service can store. PostgreSQL rejects U+0000, and a lone surrogate has no UTF-8 encoding. */
/** Replaces characters that the transcript cannot store: half surrogate pairs and NUL. The service refuses a text that is too long. */
export declare const toStorable: (text: string) => string;
/** Replaces such characters in all texts of a JSON value: strings and property names. */
export declare function toStorableJson<T>(value: T): T;
