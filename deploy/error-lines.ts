/**
 * Whether a line of a process names its error: `Error` and, behind it, a colon. Two steps, because one expression would search the line
 * again behind each `Error`.
 */
export function isErrorLine(line: string): boolean {
  const start = line.search(/Error\b/);
  return start !== -1 && line.includes(':', start);
}
