/** A list of names and values. */
import type { ReactNode } from 'react';

export function DescriptionList({ rows }: { readonly rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="foreign">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
