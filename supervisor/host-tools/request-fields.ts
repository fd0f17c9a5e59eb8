/** Fields of the requests to all services of the host. */
import { trigger } from '../../sdk/contract/payloads.ts';
import { newId } from '../../service/http/schemas.ts';

export const ownId = newId.optional().describe('An id of the runtime’s own. Default: a new one.');
export const startedBy = trigger.describe(
  'The cause of the request. Plugins may allow a person what they refuse an agent.',
);
