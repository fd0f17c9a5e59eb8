/** A process as API and supervisor are, that does what BEHAVIOUR says. Run by service-process.test.ts. */
import { mkdirSync } from 'node:fs';
import {
  announceReady,
  refuseToStart,
  type SandboxReport,
  SUCCESSOR_VARIABLE,
  stopWithParent,
  waitForTurn,
} from '../../service/lifecycle/parent.ts';
import { openLogger } from '../../service/telemetry/logger.ts';

/** Something that keeps the process alive, as a server does. */
const alive = setInterval(() => undefined, 60_000);
// Before it prints anything.
if (process.env.BEHAVIOUR === 'killed') process.kill(process.pid, 'SIGKILL');
console.log(`pid ${process.pid}`);

const isReady = async () => null;

switch (process.env.BEHAVIOUR) {
  case 'refuses':
    refuseToStart(new Error('SETTING must be nice.'));
    break;
  case 'crashes':
    throw new TypeError('nothing there');
  case 'starts-once':
    try {
      mkdirSync(`${process.env.FOLDER}/started`);
      await announceReady('http://localhost:1', isReady);
    } catch {
      refuseToStart(new Error('It has started before.'));
    }
    break;
  case 'weakens': {
    stopWithParent(async () => clearInterval(alive));
    const isFirst = process.env[SUCCESSOR_VARIABLE] === undefined;
    const sandbox: SandboxReport = isFirst ? { admits: 'all' } : { admits: 'operators', notice: 'Install bubblewrap.' };
    await waitForTurn(isReady, sandbox);
    await announceReady('http://localhost:1', isReady, sandbox);
    break;
  }
  case 'hangs-on-stop':
    process.on('SIGTERM', () => undefined);
    await announceReady('http://localhost:1', isReady);
    break;
  case 'has-a-full-disk':
    stopWithParent(async () => clearInterval(alive));
    await announceReady('http://localhost:1', async () => 'DATA_DIR is full');
    break;
  case 'hangs-in-stop':
    stopWithParent(() => new Promise(() => undefined), 200);
    await announceReady('http://localhost:1', isReady);
    break;
  case 'logs-in-stop': {
    const logger = openLogger('test', 'info');
    stopWithParent(async () => {
      for (const line of ['the last but one', 'the last']) logger.info(line);
    });
    await announceReady('http://localhost:1', isReady);
    break;
  }
  default:
    stopWithParent(async () => {
      clearInterval(alive);
      // JSON need not escape this character, at which some readers end a line.
      console.log('drained\u2028well');
    });
    await waitForTurn(isReady);
    await announceReady('http://localhost:1', isReady, { notice: 'A part is missing: install it.' });
}
