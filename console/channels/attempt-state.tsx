/** How far a delivery or an event has come, and why no further. */
import { Text } from '@mantine/core';
import { StateMark, type Tone } from '../shell/state-mark.tsx';
import { visibleText } from '../style/visible-text.ts';

type State = 'pending' | 'delivered' | 'dead' | 'skipped';
const TONES: Record<State, Tone> = { pending: 'fair', delivered: 'good', dead: 'bad', skipped: 'quiet' };

interface Shown {
  readonly state: State;
  readonly lastError: string | null;
}

export function AttemptState({ state, lastError }: Shown) {
  return (
    <>
      <StateMark tone={TONES[state]}>{state}</StateMark>
      {lastError && state !== 'delivered' ? (
        <Text size="xs" c="dimmed" className="foreign">
          {visibleText(lastError)}
        </Text>
      ) : null}
    </>
  );
}
