/** `api/main.ts` with a fail point. */

import { serveApi } from '../../api/compose.ts';
import { readConfig } from '../../api/config.ts';
import { refuseToStart } from '../../service/lifecycle/parent.ts';
import { readEnvironment } from '../../service/settings/settings.ts';
import { failPoint } from './fail-point.ts';

try {
  await serveApi(readConfig(readEnvironment()), failPoint(process.env.FAILPOINT));
} catch (error) {
  refuseToStart(error);
}
