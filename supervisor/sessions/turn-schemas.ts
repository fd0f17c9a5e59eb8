/** The bodies and responses of `/sessions/{id}/turns`, with the tools and messages in them, and their types. */
import { z } from 'zod';
import { outboundModes } from '../../db/sessions/turn-outputs.ts';
import { turnStates } from '../../db/sessions/turns.ts';
import {
  attachment,
  attachments,
  json,
  judgement,
  role,
  TEXT_MAX_CHARS,
  toolResult,
  trigger,
} from '../../sdk/contract/payloads.ts';
import {
  anyJson,
  anyObject,
  jsonBody,
  newId,
  newIdOf,
  readDigits,
  storedId,
  storedText,
  timestamp,
} from '../../service/http/schemas.ts';

/** Ids of messages are made of the ids of turns and outputs, and have at most 200 characters. */
export const STEP_ID_MAX_CHARS = 150;
const FROM_MAX_CHARS = 500;
const TARGET_MAX_CHARS = 500;
const MODEL_MAX_CHARS = 200;
const TOOL_NAME_MAX_CHARS = 300;
const LEASE_DEFAULT_S = 120;
const LEASE_MAX_S = 3_600;
/** Maximum number of pieces of an output. */
const PIECES_MAX = 100_000;
const COMPACT_AFTER_MAX = 900;
export const KEEP_DEFAULT = 4;

export const toolResource = z
  .strictObject({
    name: z.string().describe('`<slug>__<tool>`, or the name that the runtime gave its tool.'),
    description: z.string(),
    parameters: anyJson.describe('JSON Schema 2020-12 of the arguments.'),
    installationId: z.string().nullable().describe('Null: a tool of the host or of the runtime.'),
    slug: z
      .string()
      .describe('The slug of the plugin. For a tool of the host, its group. Empty for a tool of the runtime.'),
    performedBy: z
      .enum(['plugin', 'host', 'runtime'])
      .describe('runtime: the response to a call is 202, and the runtime sends the result.'),
  })
  .meta({ id: 'Tool', description: 'A tool that the agent’s model may call.' });
export type ToolItem = z.output<typeof toolResource>;

export const toolResultResource = z
  .strictObject({
    content: z.array(
      z.discriminatedUnion('type', [
        z.strictObject({ type: z.literal('text'), text: z.string() }),
        z.strictObject({ type: z.literal('image'), data: z.string(), mimeType: z.string() }),
        z.strictObject({ type: z.literal('json'), json: anyJson }),
      ]),
    ),
    isError: z.boolean(),
    isFinal: z
      .literal(false)
      .optional()
      .describe('Only where a required plugin did not run, so the tool did not. The same call may pass later.'),
  })
  .meta({ id: 'ToolResult', description: 'The result of a tool, as a Model Context Protocol content list.' });

export const messageResource = z
  .strictObject({
    id: z.string(),
    role,
    text: z.string(),
    at: timestamp,
    data: anyObject
      .optional()
      .describe(
        'More about the message. Of a result of a tool: turnId, callId, tool, arguments and isError. Of a message of a user: from and attachments. `kind` is summary, reminder, agent_message, or the kind of a notice.',
      ),
    judgement: judgement.optional().describe('The judgement of the plugins. Absent: no hook judged the message.'),
  })
  .meta({
    id: 'Message',
    description: 'A message of a transcript. A message with the role `notice` is written by a plugin or by Bulkhead.',
  });

const messageCount = z.number({ error: 'must be a whole number' }).int('must be a whole number').max(COMPACT_AFTER_MAX);
const promptFields = {
  compactAfter: messageCount
    .min(1)
    .optional()
    .describe('Number of messages beyond which a plugin summarizes the older ones. Default: never.'),
  keep: messageCount
    .min(0)
    .default(KEEP_DEFAULT)
    .describe(
      'Number of recent messages that a summary does not replace. Results of tools after the last message of another kind always stay, because the model may not have read them.',
    ),
};
export const promptQuery = z.object({
  compactAfter: z.preprocess(readDigits, promptFields.compactAfter),
  keep: z.preprocess(readDigits, promptFields.keep),
});
export const promptBody = jsonBody({
  ...promptFields,
  systemPrompt: storedText(TEXT_MAX_CHARS).optional().describe('Default: the one with which the turn was opened.'),
  model: storedText(MODEL_MAX_CHARS).optional().describe('Default: the one with which the turn was opened.'),
});
export type PromptRequest = z.output<typeof promptBody>;

export const newTurn = jsonBody({
  id: newId.describe(
    'The runtime’s own id of the turn and of its message, unique in the session. A repeated request with the same id returns the same turn.',
  ),
  from: z.string().min(1).max(FROM_MAX_CHARS).default('user').describe('The name of the sender that plugins see.'),
  text: storedText(TEXT_MAX_CHARS)
    .optional()
    .describe(
      'Default: the text of the message with this id in the transcript, such as a message of a channel or of a turn that you open again. `from` and `attachments` are then those of the message, too.',
    ),
  attachments: attachments.default([]),
  trigger: trigger.describe('The cause of the turn. Plugins see it in every hook of the turn.'),
  systemPrompt: storedText(TEXT_MAX_CHARS).default('').describe('Default: the instructions of the account’s agent.'),
  model: storedText(MODEL_MAX_CHARS).default('').describe('The name of the model that plugins see.'),
  leaseSeconds: z
    .int()
    .min(1)
    .max(LEASE_MAX_S)
    .default(LEASE_DEFAULT_S)
    .describe(
      'Duration of the lease: the turn belongs to the runtime during each step and for this time after it. Bulkhead may make the lease up to half longer, to renew it less often.',
    ),
  prompt: z
    .union([z.boolean(), z.object(promptFields)])
    .default(false)
    .describe('Whether the response includes the prompt of the opened turn: true, or the fields of a prompt request.'),
});
export type TurnRequest = Omit<z.output<typeof newTurn>, 'prompt'> & {
  /** Answers the prompt of the opened turn, too. */
  readonly prompt: PromptRequest | null;
};

const verdict = {
  action: z.enum(['continue', 'cancel']).describe('cancel: the step did not happen. Do not continue with it.'),
  reason: z.string().nullable(),
  cancelledBy: z
    .string()
    .nullable()
    .describe('The slug of the plugin that cancelled the step, or that is required and did not run.'),
  isFinal: z.boolean().describe('False: a required plugin did not run, so the same step may pass later.'),
};
const judged = judgement.nullable().describe('The judgement of the plugins. Null: the text is not judged.');

export const turnResource = z
  .strictObject({
    ...verdict,
    id: z.string(),
    sessionId: z.string(),
    state: z
      .enum(turnStates)
      .describe(
        'judging: open the turn again with the same id. open: request its steps. vetoed: a plugin cancelled its message. ended: it is over. cleared: the session was cleared.',
      ),
    trigger,
    message: z
      .strictObject({
        id: z.string(),
        from: z.string(),
        text: z.string(),
        attachments: z.array(attachment),
        judgement: judged,
      })
      .nullable()
      .describe('The message after the plugins’ changes. Null: a plugin cancelled it, or it was removed.'),
    lease: z.strictObject({
      runtime: z.string(),
      until: timestamp.describe('Until then, no other runtime can continue the turn.'),
    }),
    openedAt: timestamp,
    endedAt: timestamp.nullable(),
    replyId: z
      .string()
      .nullable()
      .describe(
        'The output that ended the turn. It was sent to the session’s channel, unless the turn was ended with `reply: false` or the channel’s plugin has no `channel.send`.',
      ),
  })
  .meta({ id: 'Turn', description: 'One turn of an agent: a message, and everything until the reply to it.' });
export type TurnAnswer = z.output<typeof turnResource>;

export const callResource = z
  .strictObject({
    callId: z.string(),
    name: z.string(),
    state: z
      .enum(['running', 'performing', 'answered', 'interrupted'])
      .describe(
        'performing: the runtime performs the call and has not sent the result. interrupted: the supervisor stopped while the tool ran, and the call does not run again under this id.',
      ),
    arguments: anyJson.describe(
      'The arguments after the plugins’ changes, if the runtime performs the call. Otherwise null.',
    ),
    result: toolResultResource.nullable(),
    startedAt: timestamp,
    endedAt: timestamp.nullable(),
  })
  .meta({ id: 'TurnCall', description: 'A call of a tool in a turn.' });
export type CallState = z.output<typeof callResource>;

export const outputResource = z
  .strictObject({
    ...verdict,
    id: z.string(),
    state: z.enum(['open', 'passed', 'vetoed']),
    show: z.string().describe('The text that may be shown now, after the text that was shown before.'),
    attachments: z.array(attachment),
    judgement: judged,
  })
  .meta({ id: 'TurnOutput', description: 'An output of the agent, with the text that may be shown.' });
export type OutputAnswer = z.output<typeof outputResource>;

export const turnDetail = z
  .strictObject({
    turn: turnResource,
    calls: z.array(callResource),
    outputs: z.array(
      z.strictObject({
        id: z.string(),
        state: z.enum(['open', 'passed', 'vetoed']),
        pieces: z
          .int()
          .describe('Number of pieces received, and the number of the next piece. 0: the text was sent whole.'),
        text: z
          .string()
          .nullable()
          .describe('The text after the plugins’ changes. Null: it is not judged yet, or was vetoed.'),
        judgement: judged,
      }),
    ),
    nextCursor: z.string().nullable().describe('The cursor of the next calls and outputs. Null: there are no more.'),
  })
  .meta({ id: 'TurnDetail', description: 'A turn with its calls and outputs.' });

export const waitingResource = z
  .strictObject({ sessionId: z.string(), agentId: z.string(), message: messageResource })
  .meta({ id: 'WaitingMessage', description: 'A message that waits for an answer.' });

export const promptResource = z
  .strictObject({
    ...verdict,
    turnId: z.string(),
    systemPrompt: z.string(),
    model: z.string(),
    messages: z
      .array(messageResource)
      .describe(
        'Oldest first, without notices and vetoed messages. A summary is a message with the role system. If it replaces the message of the turn, that message follows it.',
      ),
    isTruncated: z.boolean().describe('Whether older messages are left out without a summary.'),
    notice: z.string().nullable().describe('Reason why a plugin’s summary is not used.'),
    tools: z.array(toolResource),
    outbound: z
      .enum(outboundModes)
      .describe(
        'The way in which plugins judge the texts of the agent now. none: show each text as the model writes it. pieces: send pieces, such as sentences, and show each one when its response arrives. whole: show nothing before the end of the text.',
      ),
  })
  .meta({
    id: 'Prompt',
    description: 'The input of a model call. If the action is `cancel`, all fields of it are empty.',
  });
export type PromptAnswer = z.output<typeof promptResource>;

export const handedCall = z
  .strictObject({
    callId: z.string(),
    name: z.string(),
    arguments: anyJson.describe('The arguments after the plugins’ changes. Perform the call with these.'),
    isRepeated: z.boolean().describe('Whether an earlier attempt received this call, and so may have performed it.'),
  })
  .meta({ id: 'OwnCall', description: 'A judged call of a tool of the runtime. Perform it, then send its result.' });

export const openedTurn = turnResource
  .extend({ prompt: promptResource.optional().describe('Present if you requested it and the turn is open.') })
  .meta({ id: 'OpenedTurn', description: 'A turn, and the prompt if it was requested.' });
export type OpenedTurn = z.output<typeof openedTurn>;

export const newCall = jsonBody({
  name: storedText(TOOL_NAME_MAX_CHARS)
    .min(1)
    .describe('`<slug>__<tool>`, or the name that the runtime gave its tool.'),
  arguments: json.default({}),
  own: z
    .boolean()
    .default(false)
    .describe('Whether the runtime performs the tool, although the session does not list it.'),
  attempt: storedId
    .optional()
    .describe('For a tool of the runtime: a random id, which a repeated request sends again. See `isRepeated`.'),
  keepRunning: z
    .boolean()
    .default(false)
    .describe(
      'Whether the tool continues when this request is closed or its connection is lost. Then a repeated request returns its result, and `DELETE` aborts it. Otherwise closing the request aborts the call.',
    ),
});

export const ownResult = jsonBody({
  content: toolResult.shape.content,
  isError: z
    .boolean()
    .default(false)
    .describe('Whether the tool failed. The model reads the reason and can correct its call.'),
});

const target = z
  .string()
  .max(TARGET_MAX_CHARS)
  .default('user')
  .describe('The name of the recipient that plugins see. In a conversation of a channel they see its key instead.');

/** A message of the agent has a text. Without this check, its files would be lost. */
const TEXT_WITH_FILES = { path: ['text'], error: 'must not be empty, because the attachments are files of a text' };

const outputId = newIdOf(STEP_ID_MAX_CHARS);
export const outputBody = jsonBody({
  id: outputId
    .optional()
    .describe(
      'The runtime’s own id of the output and of its message, unique in the session. Default: made of the turn’s id and the text, so another output of the same text, such as for another `target`, needs an id. All pieces without an id are of one output of the turn, so give each streamed text an id.',
    ),
  text: storedText(TEXT_MAX_CHARS),
  piece: z
    .int()
    .min(0)
    .max(PIECES_MAX)
    .optional()
    .describe('Number of the piece, from 0. Omit it to send a whole text.'),
  done: z.boolean().default(false).describe('Whether this is the last piece. Omit it for a whole text.'),
  attachments: attachments
    .default([])
    .describe(
      'The files of the message. Send them with a whole text or with the last piece. A `mediaId` is of a file that the account has.',
    ),
  target,
  isShown: z
    .boolean()
    .default(false)
    .describe(
      'Whether you have shown this whole text already, because the prompt said `outbound: none`. A plugin that was installed meanwhile can then cancel the text, but not change it.',
    ),
}).refine(
  // The pieces before this one may have the text.
  ({ text, piece = 0, attachments: files }) => text !== '' || piece > 0 || files.length === 0,
  TEXT_WITH_FILES,
);
export type OutputRequest = z.output<typeof outputBody>;

export const endBody = jsonBody({
  text: storedText(TEXT_MAX_CHARS)
    .min(1, 'must not be empty: leave it out to end the turn without a text')
    .optional()
    .describe('The agent’s last text, if it was not sent as an output.'),
  outputId: outputId
    .optional()
    .describe(
      'The id of that text, unique in the session. Default: made of the turn’s id and the text. If the last output of the turn has this text and no id of yours, it is the same message.',
    ),
  reply: z
    .boolean()
    .default(true)
    .describe(
      'Whether the last output is sent to the session’s channel. Send false for a turn within another one, such as of an agent that is a tool.',
    ),
  attachments: attachments.default([]).describe('The files of that text.'),
  target,
}).refine(({ text, attachments: files }) => text !== undefined || files.length === 0, TEXT_WITH_FILES);
export type TurnEnd = z.output<typeof endBody>;
