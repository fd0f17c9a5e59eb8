/** Waits, unless the signal aborts first. @throws the signal's reason */
export declare function pause(ms: number, signal?: AbortSignal): Promise<void>;
