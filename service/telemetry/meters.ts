/** Metrics from their declarations: a row names, explains and bounds each one, and is all that says so. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export interface MetricRow {
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** One sentence, with the unit where the name does not say it. */
  readonly help: string;
  /** Their values come from the protocol's keys, from routes or from slugs; never from what a plugin or caller says. */
  readonly labels: readonly string[];
  /** Of a histogram. */
  readonly buckets?: readonly number[];
}
export type MetricTable = Readonly<Record<string, MetricRow>>;

type Meter<Row extends MetricRow> = Row['type'] extends 'counter'
  ? Counter<Row['labels'][number]>
  : Row['type'] extends 'gauge'
    ? Gauge<Row['labels'][number]>
    : Histogram<Row['labels'][number]>;
export type Meters<Table extends MetricTable> = { readonly [Name in keyof Table]: Meter<Table[Name]> };
/** What a gauge says, asked when somebody scrapes, so that it costs nothing otherwise. */
export type Readers<Table extends MetricTable> = {
  readonly [Name in keyof Table as Table[Name]['type'] extends 'gauge' ? Name : never]?: (
    gauge: Gauge,
  ) => void | Promise<void>;
};

/** Makes every metric of a table. */
export function openMeters<Table extends MetricTable>(
  registry: Registry,
  table: Table,
  readers: Readers<Table>,
): Meters<Table> {
  const read = readers as Readonly<Record<string, (gauge: Gauge) => void | Promise<void>>>;
  const made = Object.entries(table).map(([name, row]) => [name, open(registry, name, row, read[name])]);
  return Object.fromEntries(made) as Meters<Table>;
}

function open(registry: Registry, name: string, row: MetricRow, read?: (gauge: Gauge) => void | Promise<void>) {
  const shared = { name, help: row.help, labelNames: row.labels, registers: [registry] };
  if (row.type === 'counter') return new Counter(shared);
  if (row.type === 'histogram') return new Histogram({ ...shared, buckets: [...(row.buckets ?? [])] });
  if (read === undefined) return new Gauge(shared);
  return new Gauge({
    ...shared,
    async collect() {
      this.reset();
      await read(this);
    },
  });
}

/** What stands for every slug past the cap. */
export const OTHER_SLUG = 'other';

/** Keeps the number of a process's time series in bounds, however many plugins there are. */
export class SlugLabels {
  readonly #known = new Set<string>();
  readonly #max: number;

  /** @param max slugs told apart, first come first served */
  constructor(max: number) {
    this.#max = max;
  }

  /** The slug, or `other`. */
  of(slug: string): string {
    if (this.#known.has(slug)) return slug;
    if (this.#known.size >= this.#max) return OTHER_SLUG;
    this.#known.add(slug);
    return slug;
  }
}
