/** Keeps what a developer's shell or a build machine exports from configuring the services and programs that tests start. */
import { apiSettings } from '../../service/settings/api-settings.ts';
import { localSettings, sharedSettings } from '../../service/settings/settings.ts';
import { supervisorSettings } from '../../service/settings/supervisor-settings.ts';

/** A run itself has this setting: whether it may fetch programs. */
const KEPT = 'SANDBOX_FETCH';
const SETTINGS = new Set(Object.keys({ ...sharedSettings, ...localSettings, ...apiSettings, ...supervisorSettings }));
/**
 * Of the command line, the demo and the examples. With `FORCE_COLOR`, Node warns about the `NO_COLOR` of tests; `script`,
 * which makes their terminals, runs commands with `SHELL`.
 */
const OTHERS = new Set([
  'BASE_URL',
  'BULKHEAD_SESSION_URL',
  'BULKHEAD_TOKEN',
  'BULKHEAD_URL',
  'FORCE_COLOR',
  'SESSION_URL',
  'SHELL',
  'TOKEN',
]);
/** Prefixes of the variables of PostgreSQL's clients and of OpenTelemetry. */
const PREFIXES = /^(PG|OTEL_)/;

/** Removes such variables from an environment. */
export function removeForeignVariables(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(env)) {
    if (name !== KEPT && (SETTINGS.has(name) || OTHERS.has(name) || PREFIXES.test(name))) delete env[name];
  }
}
