/** Removes the slashes at the end of an address. */
export const removeTrailingSlashes = (address: string): string =>
  // Only at the first of them: a search from each slash of a text of many takes quadratic time.
  address.replace(/(?<!\/)\/+$/, '');
