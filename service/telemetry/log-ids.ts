/** The ids a log line is found by, carried along with the work it is about. */
import { AsyncLocalStorage } from 'node:async_hooks';

export interface LogIds {
  readonly requestId?: string;
  readonly invocationId?: string;
  readonly installationId?: string;
}
const storage = new AsyncLocalStorage<LogIds>();

/** What is being worked on here. */
export const logIds = (): LogIds => storage.getStore() ?? {};

/** Runs work whose lines carry these ids besides those there are. */
export const withLogIds = <T>(ids: LogIds, work: () => T): T => storage.run({ ...storage.getStore(), ...ids }, work);

/** The same for work that others brought about: a pipe is read in the context of whoever opened it, which is not meant. */
export const withOnlyLogIds = <T>(ids: LogIds, work: () => T): T => storage.run(ids, work);
