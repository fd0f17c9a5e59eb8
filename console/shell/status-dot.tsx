/** How something does, in one word: a dot of its colour says the same. */
import type { ReactNode } from 'react';

export type Tone = 'good' | 'fair' | 'bad' | 'quiet';

export function StatusDot({ tone, children }: { readonly tone: Tone; readonly children: ReactNode }) {
  return (
    <span className="mark" data-tone={tone}>
      <span>{children}</span>
    </span>
  );
}
