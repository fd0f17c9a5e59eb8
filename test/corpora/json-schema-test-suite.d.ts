/** What the tests use of the package, which has no types. */
declare module 'json-schema-test-suite' {
  interface SuiteFile {
    readonly name: string;
    readonly schemas: readonly {
      readonly description: string;
      readonly schema: unknown;
      readonly tests: readonly { readonly description: string; readonly data: unknown; readonly valid: boolean }[];
    }[];
  }
  const suite: { draft4(): readonly SuiteFile[] };
  export = suite;
}
