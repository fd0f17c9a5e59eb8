/** The API process. */
import { refuseToStart } from '../service/lifecycle/parent.ts';
import { readEnvironment } from '../service/settings/settings.ts';
import { serveApi } from './compose.ts';
import { readConfig } from './config.ts';

try {
  await serveApi(readConfig(readEnvironment()));
} catch (error) {
  refuseToStart(error);
}
