/** The representation of a log line. */
import { z } from 'zod';
import { logLevels } from '../../sdk/contract/protocol.ts';
import { anyJson, timestamp } from '../../service/http/schemas.ts';

export const logLineResource = z
  .strictObject({
    id: z.string(),
    at: timestamp,
    level: z.enum(logLevels),
    message: z.string(),
    data: anyJson.nullable(),
    installationId: z.string(),
    sessionId: z.string().nullable(),
    source: z.string().describe('The handler that wrote it, or system: the host about the plugin.'),
    invocationId: z.string().nullable(),
    versionId: z.string().nullable(),
    semVer: z.string().nullable(),
    truncated: z.boolean(),
  })
  .meta({ id: 'LogLine', description: 'A line a plugin wrote through host.log, or the host about it.' });
