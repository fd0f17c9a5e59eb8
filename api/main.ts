/** The API process. */
import { refuseToStart } from '../db/parent.ts';
import { readEnvironment } from '../db/settings.ts';
import { readConfig } from './config.ts';
import { serveApi } from './service.ts';

try {
  await serveApi(readConfig(readEnvironment()));
} catch (error) {
  refuseToStart(error);
}
