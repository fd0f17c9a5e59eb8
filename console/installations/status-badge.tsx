/** How an installation does, in one word and a colour. */
import { Badge } from '@mantine/core';
import type { Installation } from '../rest/installations.ts';

const WORDS: Record<Installation['status'], { text: string; colour: string }> = {
  ready: { text: 'ready', colour: 'teal' },
  needs_configuration: { text: 'needs settings', colour: 'yellow' },
  paused: { text: 'paused', colour: 'gray' },
  failed: { text: 'failed', colour: 'red' },
  uninstalling: { text: 'uninstalling', colour: 'gray' },
};

export function StatusBadge({ status }: Pick<Installation, 'status'>) {
  const { text, colour } = WORDS[status];
  return (
    <Badge variant="light" color={colour}>
      {text}
    </Badge>
  );
}
