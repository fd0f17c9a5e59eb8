/** Lists the handlers of the running version with their calls and latency. */
import { DataTable } from '../shell/data-table.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import type { Metrics } from './metrics-view.tsx';
import { milliseconds } from './points-table.tsx';

const TITLES = ['Handler', 'Last called', 'Calls', 'Errors', 'Timeouts', 'Cancelled', '95 % within'];

export function HandlersTable({ handlers }: { readonly handlers: Metrics['handlers'] }) {
  if (handlers.length === 0) return <EmptyState>This version has no handlers.</EmptyState>;
  const rows = handlers.map(({ kind, name, lastAt, calls, errors, timeouts, cancels, p95Ms }) => ({
    key: `${kind} ${name}`,
    cells: [
      <Monospace key="name">{kind === 'hook' ? name : `${kind}.${name}`}</Monospace>,
      <Timestamp key="last" at={lastAt} none="never" />,
      calls,
      errors,
      timeouts,
      cancels,
      milliseconds(p95Ms),
    ],
  }));
  return <DataTable label="Handlers" titles={TITLES} rows={rows} numeric={TITLES.slice(2)} />;
}
