const MINUTE_MS = 60_000;
const DAY_MINUTES = 24 * 60;

/**
 * Returns when the quiet hours that contain a time end; null: it is outside of them. Both in milliseconds since 1970.
 * Invalid settings mean no quiet hours, so that no notification is lost.
 */
export function quietUntil(at: number, { from, to, utcOffset }: { readonly [name: string]: string }): number | null {
  const [start, end, offset] = [parseMinutes(from), parseMinutes(to), parseOffset(utcOffset)];
  if (start === null || end === null || offset === null || Number.isNaN(at)) return null;

  const local = Math.floor(at / MINUTE_MS) + offset;
  const minute = modulo(local, DAY_MINUTES);
  // 22:00 to 07:00 passes midnight, 13:00 to 14:00 does not.
  const isQuiet = start <= end ? minute >= start && minute < end : minute >= start || minute < end;
  return isQuiet ? (local + modulo(end - minute, DAY_MINUTES) - offset) * MINUTE_MS : null;
}

function parseMinutes(time = ''): number | null {
  const [, hours, minutes] = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(time.trim()) ?? [];
  return hours === undefined ? null : Number(hours) * 60 + Number(minutes);
}

function parseOffset(text = ''): number | null {
  const [, sign, time] = /^([+-])(.+)$/.exec(text.trim()) ?? [];
  const minutes = parseMinutes(time);
  return minutes === null ? null : sign === '-' ? -minutes : minutes;
}

/** Never negative, unlike `%`. */
const modulo = (value: number, by: number): number => ((value % by) + by) % by;
