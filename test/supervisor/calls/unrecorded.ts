/** Stands for the logs and the metrics of a chain in tests that look at neither. */
import type { ChainDeps } from '../../../supervisor/calls/chain-runner.ts';

const none = {
  system: () => undefined,
  sometimes: () => undefined,
  linkRan: () => undefined,
  chainRan: () => undefined,
};

export const unrecorded = { logs: none, metrics: none } as unknown as Pick<ChainDeps, 'logs' | 'metrics'>;
