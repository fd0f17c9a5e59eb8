/** Carries ids through async calls, so that log lines contain them. */
import { AsyncLocalStorage } from 'node:async_hooks';

interface LogIds {
  readonly requestId?: string;
  readonly invocationId?: string;
  readonly installationId?: string;
}
const storage = new AsyncLocalStorage<LogIds>();

/** The ids of the current async context. */
export const getLogIds = (): LogIds => storage.getStore() ?? {};

/** Runs work whose log lines carry these ids in addition to the current ones. */
export const withLogIds = <T>(ids: LogIds, work: () => T): T => storage.run({ ...storage.getStore(), ...ids }, work);

/**
 * Runs work whose log lines carry only these ids. For pipe readers, which run in the context of the code that opened
 * the pipe.
 */
export const withOnlyLogIds = <T>(ids: LogIds, work: () => T): T => storage.run(ids, work);
