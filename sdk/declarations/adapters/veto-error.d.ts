/** A plugin cancelled the operation, or a required plugin did not run. `message` is safe to show to users. */
export declare class VetoError extends Error {
    readonly name = "VetoError";
    /** Slug of the plugin that cancelled, or that is required and did not run. */
    readonly plugin: string;
    readonly reason: string;
    /** Whether the plugin itself cancelled. False: it is required and did not run, and the operation may pass later. */
    readonly isFinal: boolean;
    constructor(plugin: string | null, reason: string | null, isFinal?: boolean);
}
