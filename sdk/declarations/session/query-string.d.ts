/** Returns the query string with its `?`, or '' if every field is undefined. */
export declare function toQueryString(query: Readonly<Record<string, string | number | boolean | undefined>>): string;
