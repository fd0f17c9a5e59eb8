/** `agent__…`: mail for agents. */
import { z } from 'zod';
import { storedId, storedText } from '../../service/http/schemas.ts';
import { defineTool, type HostTool } from './host-tool.ts';
import { sendMail } from './mail.ts';

const TEXT_MAX_CHARS = 65_536;

/** Fields that requests and tools share. */
export const mailFields = {
  toAgentId: storedId.describe('The agent who gets it.'),
  toSessionId: storedId
    .optional()
    .describe(
      'The session of that agent that gets it, such as `data.fromSessionId` of the mail that this one answers. If it is a session of a channel, the person who writes there gets what the agent says to the mail. Default: the newest session without a channel, or a new one.',
    ),
  text: storedText(TEXT_MAX_CHARS).min(1, 'must not be empty'),
};

export const mailTools: readonly HostTool[] = [
  defineTool({
    name: 'agent__send',
    description: 'Sends a message to another agent of the account. The answer, if any, comes as a message of its own.',
    input: z.strictObject(mailFields),
    isRepeatable: true,
    run: (services, session, mail, { requestId }) => sendMail(services, session, { ...mail, id: requestId }, 'agent'),
  }),
];
