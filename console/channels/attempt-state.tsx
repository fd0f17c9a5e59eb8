/** How far a delivery or an event has come, and why no further. */
import { Badge, Text } from '@mantine/core';
import { visibleText } from '../style/visible-text.ts';

const COLOURS = { pending: 'yellow', delivered: 'teal', dead: 'red', skipped: 'gray' } as const;

interface Shown {
  readonly state: keyof typeof COLOURS;
  readonly lastError: string | null;
}

export function AttemptState({ state, lastError }: Shown) {
  return (
    <>
      <Badge variant="light" color={COLOURS[state]}>
        {state}
      </Badge>
      {lastError && state !== 'delivered' ? (
        <Text size="xs" className="foreign">
          {visibleText(lastError)}
        </Text>
      ) : null}
    </>
  );
}
