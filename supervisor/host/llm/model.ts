/** What the parts of `host.llm` hand to each other. */
import type { z } from 'zod';
import type { completionRequest } from '../../../sdk/contract/payloads.ts';

export type CompletionRequest = z.output<typeof completionRequest>;

/** One whole answer of a model, as it came. */
export interface ModelAnswer {
  readonly text: string;
  /** Set by plugin providers only; a configured model's is read from its text. */
  readonly json?: unknown;
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number };
}
