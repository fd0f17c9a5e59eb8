/** Whether a value of JSON is an object. */
export declare const isRecord: (value: unknown) => value is Record<string, unknown>;
