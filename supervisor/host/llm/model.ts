/** Types shared by the parts of `host.llm`. */
import type { z } from 'zod';
import type { completionRequest } from '../../../sdk/contract/payloads.ts';
import { HostError } from '../host-call.ts';

export type CompletionRequest = z.output<typeof completionRequest>;

/** An endpoint refused a request or failed. The next call probably fails as well, until the operator or the plugin's author mends it. */
export class EndpointFault extends HostError {}

/** One complete answer of a model. */
export interface ModelAnswer {
  readonly text: string;
  /** Set by plugin providers only. Of a configured model, the child that asked parses the text. */
  readonly json?: unknown;
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number };
}
