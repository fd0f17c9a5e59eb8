/** `supervisor/main.ts` with a fail point. */
import { refuseToStart } from '../../service/lifecycle/parent.ts';
import { readEnvironment } from '../../service/settings/settings.ts';
import { serveSupervisor } from '../../supervisor/compose.ts';
import { readConfig } from '../../supervisor/config.ts';
import { failPoint } from './fail-point.ts';

try {
  const env = readEnvironment();
  await serveSupervisor(readConfig(env), env, failPoint(process.env.FAILPOINT));
} catch (error) {
  refuseToStart(error);
}
