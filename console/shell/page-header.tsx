/** What a page is about, in a heading and a sentence, and what can be done on all of it. */
import { Group, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

interface Shown {
  readonly title: string;
  /** One sentence. */
  readonly said?: ReactNode;
  /** Buttons, at the end of its line. */
  readonly children?: ReactNode;
}

export function PageHeader({ title, said, children }: Shown) {
  return (
    <div className="page-head">
      <div>
        <Title order={1} className="foreign">
          {title}
        </Title>
        {said ? (
          <Text c="dimmed" mt={2}>
            {said}
          </Text>
        ) : null}
      </div>
      {children ? <Group gap="xs">{children}</Group> : null}
    </div>
  );
}
