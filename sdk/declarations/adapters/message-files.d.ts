import type { Attachment, Session } from '../session/session.js';
/** A picture or file in a message of a framework. */
export interface MessageFile {
    readonly name: string;
    readonly mediaType: string;
    /** Its bytes in base64. */
    readonly data?: string;
    readonly url?: string;
    /** Whether only the model's provider has the bytes. Plugins then judge the name and the type alone. */
    readonly isAtProvider?: boolean;
    /** Its place in the content of the message; left out: a plugin put it there. */
    readonly index?: number;
}
export declare class MessageFiles {
    #private;
    constructor(session: Session);
    /**
     * Keeps files with the session. Equal files have the same id, so that this can be repeated.
     *
     * @throws Error for a part of a message of which plugins could judge nothing, or not the whole name
     */
    attach(files: readonly MessageFile[], signal?: AbortSignal): Promise<Attachment[]>;
    /**
     * Returns the files after the plugins' changes. Null: unchanged.
     *
     * @param sent the files as they were sent to be judged
     */
    restore(judged: readonly Attachment[], sent: readonly Attachment[], files: readonly MessageFile[], signal?: AbortSignal): Promise<MessageFile[] | null>;
}
export declare const areSame: (some: readonly Attachment[], others: readonly Attachment[]) => boolean;
/** The text by which a message with files is recognized. */
export declare const describeFiles: (files: readonly MessageFile[]) => string;
/** The file at an address, or the bytes in a `data:` address. @throws URIError */
export declare function readAddress(address: string): Pick<MessageFile, 'data' | 'url'> & {
    readonly mediaType?: string;
};
/** The data of a file with this text. */
export declare const encodeText: (text: string) => string;
/** The address of a file, which may hold its bytes. */
export declare const formatAddress: ({ mediaType, data, url }: MessageFile) => string;
