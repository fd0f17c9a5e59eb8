/** Removes the slashes at the end of an address. */
export declare const removeTrailingSlashes: (address: string) => string;
