/** Where a list would be and is not: why, and what to do. */
import { Stack, Text } from '@mantine/core';
import { IconInbox, type TablerIcon } from '@tabler/icons-react';
import type { ReactNode } from 'react';

interface Shown {
  /** What would be listed. */
  readonly icon?: TablerIcon;
  readonly children: ReactNode;
}

export function EmptyState({ icon: Icon = IconInbox, children }: Shown) {
  return (
    <Stack className="nothing" align="center" gap="sm">
      <span className="nothing-icon">
        <Icon size={22} stroke={1.6} aria-hidden />
      </span>
      <Text ta="center" maw={440}>
        {children}
      </Text>
    </Stack>
  );
}
