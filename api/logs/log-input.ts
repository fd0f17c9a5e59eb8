/** Validates requests for log lines: queries and headers. */
import { z } from 'zod';
import { logLevels } from '../../sdk/contract/protocol.ts';
import { pageQuery, storedId } from '../../service/http/schemas.ts';
import { isLogId } from './log-tail.ts';

const levels = z.enum(logLevels, `must be one of ${logLevels.join(', ')}`);
const logFilter = {
  installationId: storedId,
  sessionId: storedId.optional(),
  levels: z.preprocess((given) => (typeof given === 'string' ? [given] : given), z.array(levels).max(10)).optional(),
};

export const logQuery = pageQuery.extend(logFilter);
export const logStreamQuery = z.object(logFilter);
/** Other headers pass unchecked. */
export const logStreamHeaders = z.looseObject({
  'last-event-id': z.string().refine(isLogId, 'must be the id of a log line').optional(),
});
