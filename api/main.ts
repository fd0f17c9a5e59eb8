/** The API process. */
import { explainDenied } from '../db/files/data-dir.ts';
import { refuseToStart } from '../service/lifecycle/parent.ts';
import { readEnvironment } from '../service/settings/settings.ts';
import { serveApi } from './compose.ts';
import { readConfig } from './config.ts';

try {
  const config = readConfig(readEnvironment());
  await serveApi(config).catch(async (error: unknown) => {
    throw await explainDenied(error, config.DATA_DIR);
  });
} catch (error) {
  refuseToStart(error);
}
