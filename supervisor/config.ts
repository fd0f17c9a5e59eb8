/** Reads the configuration of the supervisor process. */
import type { z } from 'zod';
import { parseSettings } from '../service/settings/settings.ts';
import { supervisorSettings } from '../service/settings/supervisor-settings.ts';

const MEGABYTE = 1_000_000;
/** Memory of an idle plugin process beside many others (docs/operating.md). Bytes. */
const IDLE_CHILD_BYTES = 14 * MEGABYTE;

export type SupervisorConfig = z.output<z.ZodObject<typeof supervisorSettings>>;

/** Reads the supervisor's settings. @throws SettingsError naming the first invalid one */
export function readConfig(env: Readonly<Record<string, string | undefined>>): SupervisorConfig {
  return parseSettings(supervisorSettings, env);
}

/**
 * Describes settings that are valid but do not work together.
 *
 * @param memory of this machine or control group, bytes
 * @returns one sentence for each
 */
export function describeConflictingLimits(config: SupervisorConfig, memory: number): readonly string[] {
  const { HEAP_MEGABYTES: heap, RESIDENT_MEGABYTES: resident, CHILDREN: children } = config;
  const conflicts: string[] = [];
  if (heap >= resident)
    conflicts.push(
      `HEAP_MEGABYTES (${heap}) is not below RESIDENT_MEGABYTES (${resident}), which includes the heap: a plugin process is killed before its heap is full.`,
    );
  if (children * IDLE_CHILD_BYTES > memory)
    conflicts.push(
      `CHILDREN (${children}) idle plugin processes use about ${formatMegabytes(children * IDLE_CHILD_BYTES)} MB, and this machine has ${formatMegabytes(memory)} MB: set CHILDREN lower, or leave it empty. This supervisor also takes more accounts than it can serve.`,
    );
  return conflicts;
}

const formatMegabytes = (bytes: number): number => Math.round(bytes / MEGABYTE);
