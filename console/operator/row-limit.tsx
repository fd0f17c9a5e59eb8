/** Says that a list in the administration may be incomplete. */
import { Text } from '@mantine/core';
import type { ReactNode } from 'react';

/** Limit of the REST interface. */
export const ROWS_MAX = 200;

interface LimitNoteProps {
  readonly rows: readonly unknown[];
  /** Which rows are listed, and how to find the others. */
  readonly children: ReactNode;
}

export function LimitNote({ rows, children }: LimitNoteProps) {
  if (rows.length < ROWS_MAX) return null;
  return (
    <Text size="sm" c="dimmed">
      {children}
    </Text>
  );
}
