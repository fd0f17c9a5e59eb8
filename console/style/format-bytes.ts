/** Formats a number of bytes for people. */
import { formatNumber } from './format-number.ts';

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB'];
const STEP = 1024;

export function formatBytes(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= STEP && unit < UNITS.length - 1) [value, unit] = [value / STEP, unit + 1];
  return `${formatNumber(value)} ${UNITS[unit]}`;
}
