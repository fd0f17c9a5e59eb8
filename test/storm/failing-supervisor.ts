/** `supervisor/main.ts` with fail points. */
import { refuseToStart } from '../../service/lifecycle/parent.ts';
import { readEnvironment } from '../../service/settings/settings.ts';
import { serveSupervisor } from '../../supervisor/compose.ts';
import { readConfig } from '../../supervisor/config.ts';
import { stopAtFailPoints } from './fail-point.ts';

try {
  const env = readEnvironment();
  await serveSupervisor(readConfig(env), env, stopAtFailPoints(process.env.FAILPOINTS));
} catch (error) {
  refuseToStart(error);
}
