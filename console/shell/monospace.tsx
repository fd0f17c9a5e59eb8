/** Monospaced text without a box. */
import { Text } from '@mantine/core';
import type { ReactNode } from 'react';

export function Monospace({ children }: { readonly children: ReactNode }) {
  return (
    <Text span fz="0.75rem" ff="monospace" className="foreign">
      {children}
    </Text>
  );
}
