/** The header of a page: title, subtitle and actions. */
import { Group, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { usePageTitle } from './use-page-title.ts';

interface PageHeaderProps {
  readonly title: string;
  readonly subtitle?: ReactNode;
  /** Buttons. */
  readonly children?: ReactNode;
}

export function PageHeader({ title, subtitle, children }: PageHeaderProps) {
  usePageTitle(title);
  return (
    <div className="page-head">
      <div>
        <Title order={1} className="foreign">
          {title}
        </Title>
        {subtitle ? (
          <Text c="dimmed" mt={2}>
            {subtitle}
          </Text>
        ) : null}
      </div>
      {children ? <Group gap="xs">{children}</Group> : null}
    </div>
  );
}
