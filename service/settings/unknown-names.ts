/** Finds misspelt names of settings: a misspelt setting has no effect. */
import { findNearName } from '../text/near-name.ts';
import { apiSettings } from './api-settings.ts';
import { type Environment, localSettings, readEnvironmentFile } from './settings.ts';
import { supervisorSettings } from './supervisor-settings.ts';

const NAMES = Object.keys({ ...apiSettings, ...supervisorSettings, ...localSettings });
/** In short names such as `HOST`, two edits also turn `HOME` and `PGHOST` into a setting. Characters. */
const SHORT_NAME = 5;
const SHORT_NAMES = NAMES.filter((name) => name.length <= SHORT_NAME);
const LONG_NAMES = NAMES.filter((name) => name.length > SHORT_NAME);
/** Maximum number of edits between a misspelt name and the setting, in short and long names. */
const SHORT_EDITS_MAX = 1;
const LONG_EDITS_MAX = 2;
/** Variables that Node, OpenTelemetry, PostgreSQL's driver and Bulkhead's commands read. */
const OTHER_NAMES = /^(NODE_|OTEL_|PG|BULKHEAD_|TZ$|PATH$|HOME$|NO_COLOR$|FORCE_COLOR$)/;

/**
 * Describes names that are probably misspelt: in the environment those that are nearly a setting, in `.env` all that
 * nothing reads.
 *
 * @param file the variables of `.env`
 * @returns one sentence for each
 */
export function describeUnknownNames(env: Environment, file: Environment = readEnvironmentFile()): readonly string[] {
  return Object.keys({ ...file, ...env })
    .filter((name) => !NAMES.includes(name) && !OTHER_NAMES.test(name))
    .flatMap((name) => {
      const near = findNearSetting(name);
      const where = name in file ? ' in .env' : '';
      if (near !== null) return [`${name}${where} is not a setting and has no effect. Did you mean ${near}?`];
      // MODELS_FILE may name any variable as that of a key.
      if (!(name in file) || env.MODELS_FILE) return [];
      return [`${name}${where} is not a setting and has no effect. docs/settings.md lists the settings.`];
    });
}

function findNearSetting(name: string): string | null {
  // No setting has a digit, and those of one of several machines do: `API_1_OPS_PORT` is HAProxy's.
  if (/\d/.test(name)) return null;
  const upper = name.toUpperCase();
  return findNearName(upper, LONG_NAMES, LONG_EDITS_MAX) ?? findNearName(upper, SHORT_NAMES, SHORT_EDITS_MAX);
}
