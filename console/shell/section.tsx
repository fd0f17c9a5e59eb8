/** A titled section of a page. */
import { Card, Group, Stack, Title } from '@mantine/core';
import type { ReactNode } from 'react';

interface Props {
  readonly title: string;
  readonly children: ReactNode;
}

export function Section({ title, children }: Props) {
  return (
    <Card withBorder component="section" aria-label={title} className="part">
      <Stack gap="sm">
        <Group mih={24}>
          <Title order={2}>{title}</Title>
        </Group>
        {children}
      </Stack>
    </Card>
  );
}
