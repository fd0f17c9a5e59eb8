/** The API process. */
import { refuseToStart } from '../service/lifecycle/parent.ts';
import { readEnvironment } from '../service/settings/settings.ts';
import { readConfig } from './config.ts';
import { serveApi } from './service.ts';

try {
  await serveApi(readConfig(readEnvironment()));
} catch (error) {
  refuseToStart(error);
}
