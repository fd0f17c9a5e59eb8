/** A status word with a coloured dot. */
import type { ReactNode } from 'react';

export type Tone = 'good' | 'fair' | 'bad' | 'quiet';

export function StatusDot({ tone, children }: { readonly tone: Tone; readonly children: ReactNode }) {
  return (
    <span className="mark" data-tone={tone}>
      <span>{children}</span>
    </span>
  );
}
