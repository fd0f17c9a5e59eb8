/** `api/main.ts` with a fail point. */
import { readConfig } from '../../api/config.ts';
import { serveApi } from '../../api/service.ts';
import { refuseToStart } from '../../service/lifecycle/parent.ts';
import { readEnvironment } from '../../service/settings/settings.ts';
import { failPoint } from './fail-point.ts';

try {
  await serveApi(readConfig(readEnvironment()), failPoint(process.env.FAILPOINT));
} catch (error) {
  refuseToStart(error);
}
