/** The errors of requests: a problem that the service returned (`application/problem+json`), and no response. */
import type { components } from '../../sdk/rest/schema.d.ts';
import { escapeText } from '../style/untrusted-text.ts';

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

/** Whether the service wrote this body. A proxy in front of it may respond with JSON of its own. */
export function isProblemBody(body: unknown): body is Body {
  const { code, detail, status } = (body ?? {}) as Partial<Record<keyof Body, unknown>>;
  return typeof code === 'string' && typeof detail === 'string' && typeof status === 'number';
}

const CHECK = 'Check that it is running and that you are online.';

/** A request got no response: the service is down, the browser is offline, or only the response was lost. */
export class UnreachableError extends Error {
  /** @param isWrite whether the request may have changed something */
  constructor(isWrite: boolean, cause?: unknown) {
    const message = isWrite
      ? `The service did not respond. ${CHECK} It may have done what you asked for: look before you repeat it.`
      : `The service is unreachable. ${CHECK}`;
    super(message, { cause });
  }
}

/** Statuses of what does not exist, or no longer: trying again does not help. */
const GONE = [404, 410];

export const isGone = (error: unknown): boolean => error instanceof Problem && GONE.includes(error.body.status);

/** Returns the message of an error for the user. */
export function getErrorMessage(error: unknown): string {
  // It may quote a plugin, such as the reason of a veto. The service marks code in its messages.
  if (error instanceof Problem) return escapeText(error.message).replaceAll(/`([^`]+)`/g, '“$1”');
  return error instanceof Error ? error.message : 'Something went wrong.';
}
