/** Replaces an empty list: says why it is empty and what to do. */
import { Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { type Icon, IconInbox } from '../style/icons.tsx';

interface Props {
  /** The icon of the things that would be listed. */
  readonly icon?: Icon;
  readonly children: ReactNode;
}

export function EmptyState({ icon: Icon = IconInbox, children }: Props) {
  return (
    <Stack className="nothing" align="center" gap="sm">
      <span className="nothing-icon">
        <Icon size={22} stroke={1.6} />
      </span>
      <Text ta="center" maw={440}>
        {children}
      </Text>
    </Stack>
  );
}
