/** Returns the query string with its `?`, or '' if every field is undefined. */
export function toQueryString(query: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const present = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  );
  return present.length === 0 ? '' : `?${new URLSearchParams(present)}`;
}
