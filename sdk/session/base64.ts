/** Base64 without Node, for browsers and other runtimes. */

/** A longer list of arguments overflows the stack. Bytes. */
const CHUNK_BYTES = 8_192;

export function encodeBase64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES)
    text += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
  return btoa(text);
}
