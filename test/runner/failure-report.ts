/** Describes a failed assertion in a few lines: continuous integration cuts long outputs. */

export interface FailedAssertion {
  readonly fullname: string;
  /** What TAP gives below the assertion. */
  readonly diag: unknown;
}

const LINES_MAX = 40;
const LINE_MAX_CHARS = 400;
/** Frames of a stack that every failure has: the runner calls each test there. */
const RUNNER_FRAMES = /^.*test\/runner\/error-domain\.ts.*(?:\n|$)/gm;

export function describeFailure({ fullname, diag }: FailedAssertion): string {
  const details = Object.entries(diag ?? {}).flatMap(([key, value]) => describeDetail(key, value).split('\n'));
  const shown = details.slice(0, LINES_MAX).map((line) => `  ${line.slice(0, LINE_MAX_CHARS)}`);
  const hidden = details.length - shown.length;
  return [`not ok ${fullname}`, ...shown, ...(hidden > 0 ? [`  … ${hidden} more lines`] : [])].join('\n');
}

function describeDetail(key: string, value: unknown): string {
  if (typeof value === 'string' && value.includes('\n'))
    return `${key}:\n${value.replaceAll(RUNNER_FRAMES, '').trimEnd()}`;
  return `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`;
}
