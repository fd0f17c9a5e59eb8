/** A titled section of a page. */
import { Card, Group, Stack, Title } from '@mantine/core';
import type { ReactNode } from 'react';

interface Shown {
  readonly title: string;
  /** Shown beside the title. */
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}

export function Section({ title, aside, children }: Shown) {
  return (
    <Card withBorder component="section" aria-label={title} className="part">
      <Stack gap="sm">
        <Group justify="space-between" wrap="nowrap" mih={24}>
          <Title order={2}>{title}</Title>
          {aside}
        </Group>
        {children}
      </Stack>
    </Card>
  );
}
