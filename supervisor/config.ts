/** Reads the configuration of the supervisor process. */
import type { z } from 'zod';
import { parseSettings } from '../service/settings/settings.ts';
import { supervisorSettings } from '../service/settings/supervisor-settings.ts';

export type SupervisorConfig = z.output<z.ZodObject<typeof supervisorSettings>>;

/** Reads the supervisor's settings. @throws SettingsError naming the first invalid one */
export function readConfig(env: Readonly<Record<string, string | undefined>>): SupervisorConfig {
  return parseSettings(supervisorSettings, env);
}
