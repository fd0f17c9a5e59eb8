/** What a program is called by: set as code, without a box round it. */
import { Text } from '@mantine/core';
import type { ReactNode } from 'react';

export function Mono({ children }: { readonly children: ReactNode }) {
  return (
    <Text span size="sm" ff="monospace" className="foreign">
      {children}
    </Text>
  );
}
