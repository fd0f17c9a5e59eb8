/** Why a child did not start, in words that may be read outside. */
import { ChildError } from './child-errors.ts';

/** No child can be had now: no fault of the plugin. */
export class NoRoomError extends Error {
  override readonly name = 'NoRoomError';
}

/** One sentence for the installation's user. */
export function startFailure(error: unknown): string {
  if (error instanceof ChildError || error instanceof NoRoomError) return error.message;
  // Text of our own errors stays inside, but for the one an operator must read.
  if (error instanceof Error && error.message.includes('is damaged on disk')) return 'its stored bundle is damaged';
  return 'its bundle cannot be read';
}

/** The plugin's own stack, as data of a log line. */
export const stackOf = (error: unknown): { data?: unknown } =>
  error instanceof ChildError && error.pluginStack ? { data: { stack: error.pluginStack } } : {};
