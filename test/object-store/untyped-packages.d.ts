/** The types of the parts of two untyped packages that the tests use. */
declare module 's3rver' {
  import type { AddressInfo } from 'node:net';

  class S3rver {
    constructor(options: {
      readonly port: number;
      readonly address: string;
      readonly silent: boolean;
      readonly directory: string;
      readonly configureBuckets: readonly { readonly name: string }[];
    });
    run(): Promise<AddressInfo>;
    close(): Promise<void>;
  }
  export = S3rver;
}

declare module 'aws4' {
  interface Aws4 {
    sign(
      request: Readonly<Record<string, unknown>>,
      credentials: { readonly accessKeyId: string; readonly secretAccessKey: string },
    ): { readonly headers: Readonly<Record<string, string>> };
  }
  const aws4: Aws4;
  export = aws4;
}
