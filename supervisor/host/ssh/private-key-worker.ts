/** The thread that opens private keys. */
import { yieldThread } from '../../../service/lifecycle/priority.ts';

export { openPrivateKey } from './private-key.ts';

yieldThread();
