/** Formats a number of bytes for people. */
const UNITS = ['bytes', 'KiB', 'MiB', 'GiB'];
const STEP = 1024;
const NUMBER = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

export function formatBytes(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= STEP && unit < UNITS.length - 1) [value, unit] = [value / STEP, unit + 1];
  return `${NUMBER.format(value)} ${UNITS[unit]}`;
}
