/** A row of large figures with labels. */
import type { ReactNode } from 'react';

export function StatList({ rows }: { readonly rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="figures">
      {rows.map(([name, value]) => (
        <div key={name} className="figure">
          <dt>{name}</dt>
          <dd className="foreign">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
