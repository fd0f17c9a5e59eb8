/** Shows the data of the charts as a table, without points at which nothing happened, newest first. */
import { DataTable } from '../shell/data-table.tsx';
import { useTimestampFormat } from '../shell/timestamp.tsx';
import { formatMilliseconds } from '../style/format-number.ts';
import type { Metrics } from './metrics-view.tsx';

const TITLES = ['From', 'Calls', 'Errors', 'Timeouts', 'p50', 'p95', 'Host calls', 'Denied', 'Restarts'];
/** The newest points that are shown: a day has 1,440. */
const ROWS_MAX = 100;

export function PointsTable({ points }: { readonly points: Metrics['points'] }) {
  const formatTimestamp = useTimestampFormat();
  const busy = points.filter(({ calls, hostCalls, restarts }) => calls + hostCalls + restarts > 0);
  const rows = busy
    .slice(-ROWS_MAX)
    .reverse()
    .map((point) => ({
      key: point.at,
      cells: [
        formatTimestamp(point.at),
        point.calls,
        point.errors,
        point.timeouts,
        formatMilliseconds(point.p50Ms),
        formatMilliseconds(point.p95Ms),
        point.hostCalls,
        point.denials,
        point.restarts,
      ],
    }));
  return (
    <details>
      <summary>Show as a table</summary>
      <DataTable label="Figures over time" titles={TITLES} rows={rows} numeric={TITLES.slice(1)} staysTable />
    </details>
  );
}
