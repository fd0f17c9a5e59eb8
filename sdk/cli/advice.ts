/** What to do next about a refusal, where the service cannot know which command was typed. */

/** `{said}` is what the service said, `{url}` its address. */
const advice: Readonly<Record<string, string>> = {
  unauthenticated: 'You are not signed in at {url}, or the sign-in ran out: run `bulkhead login`.',
  slug_taken: '{said} Give it with `--slug`.',
  version_exists: '{said} Leave `--version` out and the next free number is proposed.',
  away: 'Nothing answers at {url}: start Bulkhead there (`npm start`), or name another address with `--url`.',
  connection_lost: '{said} Look with `bulkhead status` before you try again.',
  unavailable: '{said} Try again in a few seconds.',
  rate_limited: '{said} Wait a minute and try again.',
  no_published_version: '{said} Run `bulkhead publish`.',
  already_installed: '{said} See `bulkhead status`.',
  no_draft: '{said} Run `bulkhead dev` in the package’s folder.',
};

/** One or two sentences: the service’s, and what to type. */
export function adviceFor(code: string, said: string, url: string): string {
  const text = Object.hasOwn(advice, code) ? advice[code] : undefined;
  if (text === undefined) return said;
  return text.replaceAll('{said}', () => said).replaceAll('{url}', () => url);
}
