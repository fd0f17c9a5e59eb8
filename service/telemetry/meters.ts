/** Creates metrics from a table that declares them. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { AmountsByKey } from '../../db/timing/amounts-by-key.ts';

interface MetricRow {
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** One sentence, with the unit if the name does not contain it. */
  readonly help: string;
  /** Label values are protocol keys, routes or slugs; never text from plugins or callers. */
  readonly labels: readonly string[];
  /** For histograms. */
  readonly buckets?: readonly number[];
}
export type MetricTable = Readonly<Record<string, MetricRow>>;

type Meter<Row extends MetricRow> = Row['type'] extends 'counter'
  ? Counter<Row['labels'][number]>
  : Row['type'] extends 'gauge'
    ? Gauge<Row['labels'][number]>
    : Histogram<Row['labels'][number]>;
export type Meters<Table extends MetricTable> = { readonly [Name in keyof Table]: Meter<Table[Name]> };
/** Functions that read a gauge's value at each scrape. */
type Readers<Table extends MetricTable> = {
  readonly [Name in keyof Table as Table[Name]['type'] extends 'gauge' ? Name : never]?: (
    gauge: Gauge,
  ) => void | Promise<void>;
};

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

/** The label of every slug that has none of its own. */
const OTHER_SLUG = 'other';

/** A plugin in an account. */
interface LabelledPlugin {
  readonly slug: string;
  readonly accountId: string;
}

/**
 * Limits the number of time series in a process, whatever the number of plugins, and shares it among accounts: one account that
 * calls many plugins must not keep those of others out of the metrics and alerts.
 */
export class SlugLabels {
  readonly #known = new Set<string>();
  /** Number of labels by the account whose call was the first one of the plugin. */
  readonly #ofAccount = new AmountsByKey();
  readonly #max: number;

  /** @param max number of slugs with their own label: the first ones */
  constructor(max: number) {
    this.#max = max;
  }

  /** Returns the slug, or `other`. An account gets at most as many labels as stay free: alone half of them, two a third each. */
  getLabel({ slug, accountId }: LabelledPlugin): string {
    if (this.#known.has(slug)) return slug;
    if (this.#ofAccount.get(accountId) >= this.#max - this.#known.size) return OTHER_SLUG;
    this.#ofAccount.add(accountId);
    this.#known.add(slug);
    return slug;
  }
}
