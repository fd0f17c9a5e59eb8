/** The supervisor process. */
import { refuseToStart } from '../service/lifecycle/parent.ts';
import { readEnvironment } from '../service/settings/settings.ts';
import { serveSupervisor } from './compose.ts';
import { readConfig } from './config.ts';

try {
  const env = readEnvironment();
  await serveSupervisor(readConfig(env), env);
} catch (error) {
  refuseToStart(error);
}
