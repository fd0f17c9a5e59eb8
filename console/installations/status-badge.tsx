/** The status of an installation as a word and a colour. */
import type { Installation } from '../rest/installations.ts';
import { StatusDot, type Tone } from '../shell/status-dot.tsx';

const WORDS: Record<Installation['status'], { text: string; tone: Tone }> = {
  ready: { text: 'ready', tone: 'good' },
  needs_configuration: { text: 'needs settings', tone: 'fair' },
  paused: { text: 'paused', tone: 'quiet' },
  failed: { text: 'failed', tone: 'bad' },
  uninstalling: { text: 'uninstalling', tone: 'quiet' },
};

export function StatusBadge({ status }: Pick<Installation, 'status'>) {
  const { text, tone } = WORDS[status];
  return <StatusDot tone={tone}>{text}</StatusDot>;
}
