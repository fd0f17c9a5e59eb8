/** Shows the state of a delivery or an event, with its last error. */
import { Button, Text } from '@mantine/core';
import { StatusDot, type Tone } from '../shell/status-dot.tsx';
import { useTimestampFormat } from '../shell/timestamp.tsx';
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
  readonly receivedAt?: string;
  /** The delivery that comes first. */
  readonly waitsFor?: string | null;
  /** Shows that delivery. */
  readonly onOpen?: (id: string) => void;
}

export function AttemptState({ state, lastError, setAside = false, waitReason = null, ...props }: Props) {
  const { receivedAt = '', waitsFor = null, onOpen } = props;
  const formatTimestamp = useTimestampFormat();
  const isAside = setAside && state === 'pending';
  return (
    <>
      <StatusDot tone={isAside ? 'bad' : TONES[state]}>{isAside ? 'set aside' : state}</StatusDot>
      {waitReason === null ? null : (
        <Text size="xs" c="dimmed" className="foreign">
          {escapeText(waitReason)}
        </Text>
      )}
      {waitsFor === null || onOpen === undefined ? null : (
        <Button
          size="compact-xs"
          variant="default"
          aria-label={`Show that delivery, for which the one of ${formatTimestamp(receivedAt)} waits`}
          onClick={() => onOpen(waitsFor)}
        >
          Show that delivery
        </Button>
      )}
      {lastError && state !== 'delivered' ? (
        <Text size="xs" c="dimmed" className="foreign">
          {escapeText(lastError)}
        </Text>
      ) : null}
    </>
  );
}
