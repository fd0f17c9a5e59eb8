/** `console` for plugins, one log line a call. Nothing here throws into the plugin. */
import type { LogLevel } from '../sdk/contract/protocol.ts';
import { formatTable, formatValues } from './console-format.ts';
import { DEPTH, inspect } from './inspection.ts';
import type { Log } from './log-lines.ts';
import { removeForeignFrames, UNPRINTABLE } from './text.ts';

type Write = (...values: unknown[]) => void;

/** Longest text of one call that is looked at further, characters. The log truncates it to its own limit. */
const TEXT_MAX = 65_536;
const INDENT = '  ';
/** Groups that are indented; those inside them are not indented further. */
const INDENTS_MAX = 20;
/** Labels of counters and timers that are kept. */
const LABELS_MAX = 1_000;

/** Creates the global `console`. `log` writes one line. */
export function createConsole(log: Log): Readonly<Record<string, Write>> {
  const lines = new ConsoleLines(log);
  return { ...createWriters(lines), ...createLabels(lines), clear() {}, profile() {}, profileEnd() {}, timeStamp() {} };
}

function createWriters(lines: ConsoleLines): Record<string, Write> {
  const logAt =
    (level: LogLevel): Write =>
    (...values) =>
      lines.write(level, () => formatValues(values));
  const info = logAt('info');
  const group: Write = (...label) => {
    if (label.length > 0) info(...label);
    lines.indent(1);
  };
  return {
    log: info,
    info,
    debug: logAt('debug'),
    warn: logAt('warn'),
    error: logAt('error'),
    dirxml: info,
    dir: (value, options) => lines.write('info', () => formatDeep(value, options)),
    trace: (...values) => lines.write('debug', () => formatTrace(values)),
    table: (rows, columns) => lines.write('info', () => formatTable(rows, columns)),
    assert: (condition, ...values) => {
      if (!condition) lines.write('error', () => formatAssertion(values));
    },
    group,
    groupCollapsed: group,
    groupEnd: () => lines.indent(-1),
  };
}

/** Counters and timers, which count whole milliseconds like the plugin's other clocks. */
function createLabels(lines: ConsoleLines): Record<string, Write> {
  const counts = new Map<string, number>();
  const timers = new Map<string, number>();
  const keep = (map: Map<string, number>, label: string, value: number): void => {
    if (map.has(label) || map.size < LABELS_MAX) map.set(label, value);
  };
  const named =
    (run: (label: string, values: unknown[]) => [LogLevel, string] | null): Write =>
    (label = 'default', ...values) => {
      let line: [LogLevel, string] | null = null;
      lines.guard(() => {
        line = run(String(label), values);
        if (line !== null) lines.write(line[0], () => line?.[1] ?? '');
      });
    };
  const formatTime = (label: string, values: unknown[]): [LogLevel, string] => {
    const started = timers.get(label);
    if (started === undefined) return ['warn', `The timer “${label}” was not started`];
    const rest = values.length > 0 ? ` ${formatValues(values)}` : '';
    return ['info', `${label}: ${Math.max(0, Date.now() - started)}ms${rest}`];
  };
  return {
    count: named((label) => {
      const count = (counts.get(label) ?? 0) + 1;
      keep(counts, label, count);
      return ['info', `${label}: ${count}`];
    }),
    countReset: named((label) => (counts.delete(label) ? null : ['warn', `The counter “${label}” does not exist`])),
    time: named((label) => {
      if (timers.has(label)) return ['warn', `The timer “${label}” runs already`];
      keep(timers, label, Date.now());
      return null;
    }),
    timeLog: named(formatTime),
    timeEnd: named((label, values) => {
      const line = formatTime(label, values);
      timers.delete(label);
      return line;
    }),
  };
}

/** Writes lines with the indentation of their group. */
class ConsoleLines {
  readonly #log: Log;
  #depth = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  indent(by: 1 | -1): void {
    this.#depth = Math.max(0, this.#depth + by);
  }

  /** Writes what `format` returns, or that it cannot be shown. */
  write(level: LogLevel, format: () => string): void {
    this.guard(() => {
      let text = UNPRINTABLE;
      try {
        text = removeForeignFrames(format().slice(0, TEXT_MAX));
      } catch {
        // A hostile value. The line still shows that something was logged.
      }
      const indent = INDENT.repeat(Math.min(this.#depth, INDENTS_MAX));
      this.#log(level, indent === '' ? text : indent + text.replaceAll('\n', `\n${indent}`));
    });
  }

  /** Runs work; whatever it throws, such as an overflow of the stack, stays here. */
  guard(work: () => void): void {
    try {
      work();
    } catch {
      // Logging never fails.
    }
  }
}

/** A depth of null is without a limit. */
function formatDeep(value: unknown, options: unknown): string {
  const depth = typeof options === 'object' && options !== null ? Reflect.get(options, 'depth') : undefined;
  const isDepth = depth === null || (typeof depth === 'number' && depth >= 0);
  return inspect(value, isDepth ? depth : DEPTH);
}

function formatTrace(values: readonly unknown[]): string {
  const stack = String(new Error().stack).replace(/^[^\n]*/, '');
  const text = formatValues(values);
  return `Trace${text === '' ? '' : `: ${text}`}${stack}`;
}

function formatAssertion(values: readonly unknown[]): string {
  const [first, ...rest] = values;
  if (values.length === 0) return 'Assertion failed';
  return typeof first === 'string'
    ? formatValues([`Assertion failed: ${first}`, ...rest])
    : formatValues(['Assertion failed:', ...values]);
}
