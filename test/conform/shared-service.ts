/** The service of a process, started by the first of its files that asks for it. Each file has accounts of its own there. */
import rootTest from 'tap';
import { type CalledService, startApiAndSupervisor } from '../deploy/service-fixture.ts';

/** A check is as fast as what it checks. */
export const NO_RATE_LIMITS = {
  READS_PER_MINUTE: '100000',
  WRITES_PER_MINUTE: '100000',
  SESSION_CALLS_PER_MINUTE: '100000',
};

let shared: Promise<CalledService> | undefined;

export function shareService(): Promise<CalledService> {
  shared ??= startApiAndSupervisor(rootTest, NO_RATE_LIMITS);
  return shared;
}
