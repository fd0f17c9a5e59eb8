/** Describes why a child did not start, without internal error text. */
import { ChildError } from './child-errors.ts';

/** The supervisor has no place for the child. Does not count as a failure of the plugin. */
export class NoRoomError extends Error {
  override readonly name = 'NoRoomError';
}

/** The process did not get ready, so no code of the plugin has run. An update to it is tried again. */
export class NotReadyError extends Error {
  override readonly name = 'NotReadyError';
}

/** Returns one sentence for the installation's user. */
export function describeStartFailure(error: unknown): string {
  if (error instanceof ChildError || error instanceof NoRoomError || error instanceof NotReadyError)
    return error.message;
  // Internal error text stays inside. Damage on disk is reported, because the operator must repair it.
  if (error instanceof Error && error.message.includes('is damaged on disk')) return 'its stored bundle is damaged';
  return 'its bundle cannot be read';
}

/** The plugin's stack as data of a log line. */
export const pickPluginStack = (error: unknown): { data?: unknown } =>
  error instanceof ChildError && error.pluginStack ? { data: { stack: error.pluginStack } } : {};
