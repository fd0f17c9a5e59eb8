/** The supervisor process. */
import { refuseToStart } from '../db/parent.ts';
import { readEnvironment } from '../db/settings.ts';
import { readConfig } from './config.ts';
import { serveSupervisor } from './service.ts';

try {
  const env = readEnvironment();
  await serveSupervisor(readConfig(env), env);
} catch (error) {
  refuseToStart(error);
}
