/** A refusal of the service, as `application/problem+json` says it. */
import type { components } from './schema.d.ts';

type Body = components['schemas']['Problem'];

export class Problem extends Error {
  override readonly name = 'Problem';
  readonly body: Body;

  constructor(body: Body) {
    super(body.detail);
    this.body = body;
  }

  get code(): string {
    return this.body.code;
  }
}

/** What to tell the user of any failure. */
export function getErrorMessage(error: unknown): string {
  if (error instanceof Problem) return error.message;
  if (error instanceof TypeError) return 'The service cannot be reached. Check that it runs and that you are online.';
  return error instanceof Error ? error.message : 'Something went wrong.';
}
