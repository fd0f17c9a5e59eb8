/** A process as API and supervisor are, that does what BEHAVIOUR says. Run by service-process.test.ts. */
import { mkdirSync } from 'node:fs';
import { announceReady, refuseToStart, stopWithParent, waitForTurn } from '../../service/lifecycle/parent.ts';
import { openLogger } from '../../service/telemetry/logger.ts';

/** Something that keeps the process alive, as a server does. */
const alive = setInterval(() => undefined, 60_000);
// Before it prints anything.
if (process.env.BEHAVIOUR === 'killed') process.kill(process.pid, 'SIGKILL');
console.log(`pid ${process.pid}`);

switch (process.env.BEHAVIOUR) {
  case 'refuses':
    refuseToStart(new Error('SETTING must be nice.'));
    break;
  case 'crashes':
    throw new TypeError('nothing there');
  case 'starts-once':
    try {
      mkdirSync(`${process.env.FOLDER}/started`);
      announceReady('http://localhost:1');
    } catch {
      refuseToStart(new Error('It has started before.'));
    }
    break;
  case 'hangs-on-stop':
    process.on('SIGTERM', () => undefined);
    announceReady('http://localhost:1');
    break;
  case 'hangs-in-stop':
    stopWithParent(() => new Promise(() => undefined), 200);
    announceReady('http://localhost:1');
    break;
  case 'logs-in-stop': {
    const logger = openLogger('test', 'info');
    stopWithParent(async () => {
      for (const line of ['the last but one', 'the last']) logger.info(line);
    });
    announceReady('http://localhost:1');
    break;
  }
  default:
    stopWithParent(async () => {
      clearInterval(alive);
      // JSON need not escape this character, at which some readers end a line.
      console.log('drained\u2028well');
    });
    await waitForTurn(async () => null);
    announceReady('http://localhost:1', { notice: 'A part is missing: install it.' });
}
