/** The query of an address. Undefined fields are left out. */
export declare function toQueryString(query: Readonly<Record<string, string | number | boolean | undefined>>): string;
