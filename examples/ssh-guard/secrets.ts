const HIDDEN = '[secret]';
/** Patterns of secrets. Linear, because other machines and agents write the matched text. */
const SHAPES = [
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /\bgh[pousr]_\w{36,}|\bgithub_pat_\w{40,}/g,
  /\bxox[abeprs]-[\w-]{10,}/g,
  /\bsk-[\w-]{20,}/g,
  // Each attempt ends where the next one begins: without the look-ahead, each would search to the end of the text for a dot.
  /\beyJ(?:(?!\beyJ)[\w-]){10,}\.[\w-]{10,}\.[\w-]+/g,
];
/** `name = value`, `"name": "value"` and `Authorization: Bearer value`, by name. */
const NAMED =
  /((?:password|passwd|secret|token|api_?key|access_?key|credential)s?["']?\s*[=:]\s*|\b(?:bearer|basic)\s+)("[^"\n]*"|'[^'\n]*'|[^\s"',;]+)/gi;
/** `scheme://user:password@host` */
const IN_ADDRESS = /(\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s:/@]{1,200}:)[^\s/@]{1,200}(?=@)/gi;

/** Replaces texts that look like secrets. */
export function hideSecrets(text: string): string {
  const shaped = SHAPES.reduce((rest, shape) => rest.replace(shape, HIDDEN), text);
  return shaped.replace(NAMED, `$1${HIDDEN}`).replace(IN_ADDRESS, `$1${HIDDEN}`);
}
