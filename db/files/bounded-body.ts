/** Reads the bodies of answers of services that may send without end. */

/** Reads a body, as it is after decompression, and cuts off most of what is longer than `maxBytes`: the result is longer, too. */
export async function readBounded({ body }: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    chunks.push(chunk);
    // Ends the iteration, which cancels the response.
    if (bytes > maxBytes) break;
  }
  return Buffer.concat(chunks);
}
