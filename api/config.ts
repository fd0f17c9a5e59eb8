/** Reads the configuration of the API process. */
import type { z } from 'zod';
import { apiSettings } from '../service/settings/api-settings.ts';
import { parseSettings } from '../service/settings/settings.ts';

export type ApiConfig = z.output<z.ZodObject<typeof apiSettings>>;

/** Reads the API's settings. @throws SettingsError naming the first invalid one */
export function readConfig(env: Readonly<Record<string, string | undefined>>): ApiConfig {
  return parseSettings(apiSettings, env);
}
