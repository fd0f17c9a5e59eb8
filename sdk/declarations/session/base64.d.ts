/** Base64 without Node, for browsers and other runtimes. */
export declare function encodeBase64(bytes: Uint8Array): string;
