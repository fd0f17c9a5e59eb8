/** `api/main.ts` with fail points. */

import { serveApi } from '../../api/compose.ts';
import { readConfig } from '../../api/config.ts';
import { refuseToStart } from '../../service/lifecycle/parent.ts';
import { readEnvironment } from '../../service/settings/settings.ts';
import { stopAtFailPoints } from './fail-point.ts';

try {
  await serveApi(readConfig(readEnvironment()), stopAtFailPoints(process.env.FAILPOINTS));
} catch (error) {
  refuseToStart(error);
}
