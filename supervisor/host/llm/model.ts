/** Types shared by the parts of `host.llm`. */
import type { z } from 'zod';
import type { completionRequest } from '../../../sdk/contract/payloads.ts';

export type CompletionRequest = z.output<typeof completionRequest>;

/** One complete answer of a model. */
export interface ModelAnswer {
  readonly text: string;
  /** Set by plugin providers only; for configured models it is parsed from the text. */
  readonly json?: unknown;
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number };
}
