/** Every handler of the version that runs: when it was called last, how often, and how long it takes. */
import { HeadedTable } from '../shell/headed-table.tsx';
import { Moment } from '../shell/moment.tsx';
import { Mono } from '../shell/mono.tsx';
import { Nothing } from '../shell/nothing.tsx';
import type { Metrics } from './metrics-view.tsx';
import { milliseconds } from './points-table.tsx';

const TITLES = ['Handler', 'Last called', 'Calls', 'Errors', 'Timeouts', 'Vetoes', '95 % within'];

export function HandlersTable({ handlers }: { readonly handlers: Metrics['handlers'] }) {
  if (handlers.length === 0) return <Nothing>This version has no code that is called.</Nothing>;
  const rows = handlers.map(({ kind, name, lastAt, calls, errors, timeouts, cancels, p95Ms }) => ({
    key: `${kind} ${name}`,
    cells: [
      <Mono key="name">{kind === 'hook' ? name : `${kind}.${name}`}</Mono>,
      <Moment key="last" at={lastAt} none="never" />,
      calls,
      errors,
      timeouts,
      cancels,
      milliseconds(p95Ms),
    ],
  }));
  return <HeadedTable label="Handlers" titles={TITLES} rows={rows} numeric={TITLES.slice(2)} />;
}
