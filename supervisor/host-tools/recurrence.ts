/** The times of a repeating reminder: an RRULE of RFC 5545 in an IANA time zone. */
import { RRuleTemporal } from 'rrule-temporal';
import type { ReminderFields } from '../../db/sessions/reminders.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { TIME_MAX_MS } from '../../sdk/contract/payloads.ts';

/** Steps that a rule may take to its next time. A rule without a next time would search until the year 9999. */
const STEPS_MAX = 1_000;
/** Maximum number of missed times that are counted for a rule without `COUNT`. */
const MISSED_COUNTED_MAX = 100;
const NANOSECONDS_PER_HOUR = 3_600_000_000_000;
const WHOLE_MINUTES = /^[+-]\d\d:\d\d$/;
const COUNT_MAX = 10_000;
const INTERVAL_MAX = 1_000;
const FREQUENCIES: ReadonlySet<string> = new Set(['HOURLY', 'DAILY', 'WEEKLY', 'MONTHLY', 'YEARLY']);
const NUMBERS = /^[+-]?\d{1,3}(,[+-]?\d{1,3}){0,30}$/;
/** Parts of a rule and the form of their values. `BYSECOND` is missing: nothing repeats within a minute. */
const PARTS: Readonly<Record<string, RegExp>> = {
  FREQ: /^[A-Z]+$/,
  INTERVAL: /^[1-9]\d{0,3}$/,
  COUNT: /^[1-9]\d{0,4}$/,
  UNTIL: /^\d{8}(T\d{6}Z)?$/,
  WKST: /^(MO|TU|WE|TH|FR|SA|SU)$/,
  BYDAY: /^([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)(,([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)){0,13}$/,
  BYHOUR: NUMBERS,
  BYMINUTE: /^\d{1,2}$/,
  BYMONTH: NUMBERS,
  BYMONTHDAY: NUMBERS,
  BYYEARDAY: NUMBERS,
  BYWEEKNO: NUMBERS,
  BYSETPOS: NUMBERS,
};
/** Added to the refusal of a part whose value is easily written in another form. */
const FORMS: Readonly<Record<string, string>> = {
  UNTIL: '. It takes a date, such as 20261231, or a time in UTC, such as 20261231T090000Z',
};
/** The range of a part's numbers. `isSigned`: also negative, counted from the end. The library silently ignores other numbers. */
const RANGES: Readonly<Record<string, { readonly least: number; readonly most: number; readonly isSigned: boolean }>> =
  {
    BYDAY: { least: 1, most: 53, isSigned: true },
    BYHOUR: { least: 0, most: 23, isSigned: false },
    BYMINUTE: { least: 0, most: 59, isSigned: false },
    BYMONTH: { least: 1, most: 12, isSigned: false },
    BYMONTHDAY: { least: 1, most: 31, isSigned: true },
    BYYEARDAY: { least: 1, most: 366, isSigned: true },
    BYWEEKNO: { least: 1, most: 53, isSigned: true },
    BYSETPOS: { least: 1, most: 366, isSigned: true },
  };
const ZONE = /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/;

/** A rule without `COUNT`, which is kept beside it. */
export interface Recurrence {
  readonly rule: string;
  /** Null: no end. */
  readonly count: number | null;
}

/** Reads a rule without computing its times. @throws Problem `bad_request` that names the part */
export function parseRecurrence(text: string): Recurrence {
  const rule = text.replace(/^RRULE:/i, '').toUpperCase();
  if (rule === '') throw refuseRepeat('is empty: leave it out for a reminder that comes once');
  const parts = rule.split(';').map((part) => part.split('='));
  for (const [name = '', value = '', ...rest] of parts) {
    if (!Object.hasOwn(PARTS, name)) throw refuseRepeat(`has a part that is not supported: “${name}”`);
    if (!PARTS[name]?.test(value) || rest.length > 0)
      throw refuseRepeat(`has a ${name} that is not supported: “${[value, ...rest].join('=')}”${FORMS[name] ?? ''}`);
    const outside = findOutside(name, value);
    if (outside !== undefined) throw refuseRepeat(`has a number that ${name} does not take: ${outside}`);
  }
  const values = new Map(parts.map(([name = '', value = '']) => [name, value]));
  if (values.size < parts.length) throw refuseRepeat('has a part twice');
  if (!FREQUENCIES.has(values.get('FREQ') ?? ''))
    throw refuseRepeat(`needs FREQ=${[...FREQUENCIES].join(', ')}: nothing repeats more often than every hour`);
  const count = values.has('COUNT') ? Number(values.get('COUNT')) : null;
  if (count !== null && count > COUNT_MAX) throw refuseRepeat(`has a COUNT above ${COUNT_MAX}`);
  if (Number(values.get('INTERVAL') ?? 1) > INTERVAL_MAX) throw refuseRepeat(`has an INTERVAL above ${INTERVAL_MAX}`);
  if (count !== null && values.has('UNTIL')) throw refuseRepeat('has both COUNT and UNTIL');
  // The library ignores the number where RFC 5545 forbids it: `2MO` of a week would be every Monday.
  if (/\d/.test(values.get('BYDAY') ?? '') && !takesNumberedDays(values))
    throw refuseRepeat(
      'has a number in BYDAY, which only FREQ=MONTHLY takes, and FREQ=YEARLY without BYWEEKNO. Every second Monday is FREQ=WEEKLY;INTERVAL=2;BYDAY=MO',
    );
  values.delete('COUNT');
  return { rule: [...values].map(([name, value]) => `${name}=${value}`).join(';'), count };
}

const takesNumberedDays = (values: ReadonlyMap<string, string>): boolean =>
  values.get('FREQ') === 'MONTHLY' || (values.get('FREQ') === 'YEARLY' && !values.has('BYWEEKNO'));

function findOutside(name: string, value: string): string | undefined {
  const range = RANGES[name];
  if (range === undefined) return undefined;
  const numbers = value.split(',').flatMap((each) => /^[+-]?\d+/.exec(each)?.[0] ?? []);
  return numbers.find((text) => {
    const number = Number(text);
    return Math.abs(number) < range.least || Math.abs(number) > range.most || (number < 0 && !range.isSigned);
  });
}

/** @throws Problem `bad_request` */
export function requireZone(zone: string): void {
  try {
    if (!ZONE.test(zone)) throw new RangeError(zone);
    Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(zone);
  } catch {
    throw refuse('zone', 'is not an IANA time zone, such as Europe/Berlin');
  }
}

export const refuseRepeat = (message: string) => refuse('repeat', message);
export const refuse = (field: string, message: string) =>
  new Problem('bad_request', `${field} ${message}.`, { errors: [{ field, message }] });

/** Repeats after a number of hours, whatever the clock of the zone shows. */
const isElapsed = (rule: string): boolean => /(^|;)FREQ=HOURLY(;|$)/.test(rule) && !/(^|;)BY(?!MINUTE=)/.test(rule);

function buildRule(rule: string, startsAt: string, zone: string): RRuleTemporal {
  const start = Temporal.Instant.from(startsAt).toZonedDateTimeISO(zone);
  // The library steps through hours of the clock, and would skip the second pass of the hour that a clock repeats in autumn.
  const dtstart = isElapsed(rule) ? start.withTimeZone(findSteadyZone(rule, start)) : start;
  return new RRuleTemporal({ rruleString: `RRULE:${rule}`, dtstart, maxIterations: STEPS_MAX });
}

/** Returns a zone with a fixed offset that shows the minutes which the rule means, or that of the reminder where no offset does. */
function findSteadyZone(rule: string, start: Temporal.ZonedDateTime): string {
  if (!/(^|;)BYMINUTE=/.test(rule)) return 'UTC';
  // A change by half an hour, as on Lord Howe Island, moves the minutes. Each half of the year has one of these times.
  const laterTimes = [4, 8].map((months) => start.add({ months }));
  const isSteady = laterTimes.every(
    ({ offsetNanoseconds }) => (offsetNanoseconds - start.offsetNanoseconds) % NANOSECONDS_PER_HOUR === 0,
  );
  // Offsets of the 19th century have seconds, which name no zone.
  return isSteady && WHOLE_MINUTES.test(start.offset) ? start.offset : start.timeZoneId;
}

export interface Following {
  /** The first time after now; null: there is none. */
  readonly nextAt: string | null;
  readonly remaining: number | null;
  /** Times that passed after the due one. At most `MISSED_COUNTED_MAX` for a rule without `COUNT`; otherwise each takes one from `remaining`. */
  readonly missed: number;
  /** The rule may have a next time, and it takes more than `STEPS_MAX` steps to find it. */
  readonly isLost?: true;
}
/** A time, and the rule by which it comes again. */
export type RepeatedTime = Pick<ReminderFields, 'repeat' | 'startsAt' | 'zone' | 'remaining'>;
export type RecurringTime = RepeatedTime & { readonly repeat: string };

/** Computes the time after a due one. May take long. @throws Error when the rule has no next time, or is not a rule */
export function findFollowing(
  { repeat, startsAt, zone, remaining }: RecurringTime,
  dueAt: string,
  now: number,
): Following {
  const rule = buildRule(repeat, startsAt, zone);
  let left = remaining;
  let missed = 0;
  const findAfter = (after: number) => (left === null || left > 1 ? findNext(rule, after) : null);
  let at = findAfter(Date.parse(dueAt));
  while (at !== null) {
    left = left === null ? null : left - 1;
    if (at > now) return { nextAt: new Date(at).toISOString(), remaining: left, missed };
    missed += 1;
    // Without a count, the search skips to the first time after now.
    at = findAfter(missed < MISSED_COUNTED_MAX || left !== null ? at : now);
  }
  return { nextAt: null, remaining, missed };
}

/** Milliseconds since the epoch; null: there is none up to `TIME_MAX_MS`, the latest time that the API can write. */
function findNext(rule: RRuleTemporal, after: number): number | null {
  const next = rule.next(new Date(after), false);
  return next === null || next === undefined || next.epochMilliseconds > TIME_MAX_MS ? null : next.epochMilliseconds;
}
