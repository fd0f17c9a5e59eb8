/** Metrics of the file system that holds DATA_DIR. */
import type { Gauge } from 'prom-client';
import { readFreeSpace } from '../../db/files/data-dir.ts';

export const diskMetrics = {
  bulkhead_data_dir_free_bytes: {
    type: 'gauge',
    help: 'Free space of the file system that holds DATA_DIR.',
    labels: [],
  },
  bulkhead_data_dir_size_bytes: { type: 'gauge', help: 'Size of the file system that holds DATA_DIR.', labels: [] },
} as const;

/** Creates the collect functions of these gauges. Without an answer of the file system, they have no values. */
export function diskReaders(dataDir: string): Record<keyof typeof diskMetrics, (gauge: Gauge) => Promise<void>> {
  const createReader = (name: 'freeBytes' | 'totalBytes') => async (gauge: Gauge) => {
    const space = await readFreeSpace(dataDir).catch(() => null);
    if (space !== null) gauge.set(space[name]);
  };
  return {
    bulkhead_data_dir_free_bytes: createReader('freeBytes'),
    bulkhead_data_dir_size_bytes: createReader('totalBytes'),
  };
}
