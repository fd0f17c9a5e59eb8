/** The supervisor process. */
import { explainDenied } from '../db/files/data-dir.ts';
import { refuseToStart } from '../service/lifecycle/parent.ts';
import { readEnvironment } from '../service/settings/settings.ts';
import { serveSupervisor } from './compose.ts';
import { readConfig } from './config.ts';

try {
  const env = readEnvironment();
  const config = readConfig(env);
  await serveSupervisor(config, env).catch(async (error: unknown) => {
    throw await explainDenied(error, config.DATA_DIR);
  });
} catch (error) {
  refuseToStart(error);
}
