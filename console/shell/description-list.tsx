/** A list of names and values. */
import type { ReactNode } from 'react';

interface DescriptionListProps {
  readonly rows: readonly (readonly [string, ReactNode])[];
  /** `figures`: a row of large values. */
  readonly look?: 'facts' | 'figures';
}

export function DescriptionList({ rows, look = 'facts' }: DescriptionListProps) {
  return (
    <dl className={look}>
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="foreign">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
