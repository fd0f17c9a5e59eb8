/** A problem that the service returned (`application/problem+json`). */
import type { components } from './schema.d.ts';

type Body = components['schemas']['Problem'];

export class Problem extends Error {
  readonly body: Body;

  constructor(body: Body) {
    super(body.detail);
    this.body = body;
  }

  get code(): string {
    return this.body.code;
  }
}

/** Statuses of what does not exist, or no longer: trying again does not help. */
const GONE = [404, 410];

export const isGone = (error: unknown): boolean => error instanceof Problem && GONE.includes(error.body.status);

/** Returns the message of an error for the user. */
export function getErrorMessage(error: unknown): string {
  // The service marks code in its messages.
  if (error instanceof Problem) return error.message.replaceAll(/`([^`]+)`/g, '“$1”');
  if (error instanceof TypeError)
    return 'The service is unreachable. Check that it is running and that you are online.';
  return error instanceof Error ? error.message : 'Something went wrong.';
}
