/** Shows the state of a delivery or an event, with its last error. */
import { Text } from '@mantine/core';
import { StatusDot, type Tone } from '../shell/status-dot.tsx';
import { escapeText } from '../style/untrusted-text.ts';

type State = 'pending' | 'delivered' | 'dead' | 'skipped';
const TONES: Record<State, Tone> = { pending: 'fair', delivered: 'good', dead: 'bad', skipped: 'quiet' };

interface Props {
  readonly state: State;
  readonly lastError: string | null;
  /** Others pass it. */
  readonly setAside?: boolean;
  /** Why a pending one waits. */
  readonly waitReason?: string | null;
}

export function AttemptState({ state, lastError, setAside = false, waitReason = null }: Props) {
  const isAside = setAside && state === 'pending';
  return (
    <>
      <StatusDot tone={isAside ? 'bad' : TONES[state]}>{isAside ? 'set aside' : state}</StatusDot>
      {waitReason === null ? null : (
        <Text size="xs" c="dimmed" className="foreign">
          {escapeText(waitReason)}
        </Text>
      )}
      {lastError && state !== 'delivered' ? (
        <Text size="xs" c="dimmed" className="foreign">
          {escapeText(lastError)}
        </Text>
      ) : null}
    </>
  );
}
