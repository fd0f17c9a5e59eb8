/** Names and what they stand for, as a description list. */
import { Text } from '@mantine/core';
import type { ReactNode } from 'react';

export function Facts({ rows }: { readonly rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <Text component="dt" size="sm" c="dimmed">
            {name}
          </Text>
          <Text component="dd" size="sm" className="foreign">
            {value}
          </Text>
        </div>
      ))}
    </dl>
  );
}
