/**
 * Converts between bytes and base64; `atob` and `btoa` use strings of one-byte characters.
 *
 * @throws for invalid base64
 */
export const fromBase64 = (text: string): Uint8Array =>
  Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
