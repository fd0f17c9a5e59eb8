/** The types of the parts of an untyped package that the tests use. */
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
