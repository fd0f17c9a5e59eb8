/** A titled part of a page. */
import { Card, Stack, Title } from '@mantine/core';
import type { ReactNode } from 'react';

export function Part({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <Card withBorder component="section" aria-label={title}>
      <Stack gap="sm">
        <Title order={2}>{title}</Title>
        {children}
      </Stack>
    </Card>
  );
}
