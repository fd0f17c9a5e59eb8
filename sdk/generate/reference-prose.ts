/** What the reference says beside the rows: what fields mean, how calls fail, what outlives a handler. */
import type { hookBase, SurfaceName } from '../contract/protocol.ts';

/** The fields that every hook context has. */
export const contextFields: Readonly<Record<keyof typeof hookBase.shape, string>> = {
  hook: 'The hook’s own name, as above.',
  invocationId: 'Of this very call. Log lines written meanwhile carry it.',
  settings: 'The installation’s settings, as `host.settings`.',
  agent: 'The agent for which something happens.',
  session: 'The conversation, and the channel it came by, if any.',
  trigger: 'What set it off.',
  at: 'When this handler was called, ISO 8601 in UTC, like every moment here.',
  deadlineAt: 'When its budget ends; later if it waits for a model or an SSH host meanwhile.',
};

/** What follows when a surface’s handler throws, answers with something else or is late. */
export const surfaceFailures: Readonly<Record<SurfaceName, string>> = {
  tools:
    'the agent reads the message of a thrown error as an answer with `isError`, so that it can mend its call; a wrong answer or a missed deadline fails the call',
  commands: 'the call fails, with the message of a thrown error',
  providers: 'whoever asked is told that the model failed, not why; this plugin’s log says why',
  'channel.receive': 'the request is tried again, six times in all within 80 minutes, then kept for a replay by hand',
  'channel.send': 'the reply is tried again, six times in all within 80 minutes, then kept for a replay by hand',
  'channel.handshake': 'the request is queued for `channel.receive`',
};

/** How failures of hooks are named in the table of hooks. */
export const FAILURE_LEGEND = `On failure, \`skip\`: the chain goes on as if the handler had returned nothing. \`cancel\`: the operation is vetoed.
\`builtin\`: the built-in way is used. A failure, a veto and a hook that was not asked (its plugin is paused, lacks its configuration, is
blocked or does not start) are in the plugin’s log with the source \`system\`; of those that would repeat with every call, one an hour.`;

/** Below `## host`. */
export const HOST_CALLS = `### Calls that fail

A call that fails rejects with an \`Error\` that has a \`message\` for people and a \`code\`:

| \`code\` | Why |
| --- | --- |
| \`denied\` | It is not granted, not any more, or over a quota. |
| \`failed\` | The arguments are wrong, what they name is not there, or the other side refused. The message says which. |
| \`timeout\` | It took longer than it may. |
| \`cancelled\` | The handler it was made for is over, or the plugin is being stopped. |

Who makes more than 80 calls at once is refused the rest of them, without a code.

\`\`\`ts
const text = await host.workspace.readText('notes/today.md').catch((error) => {
  host.log.warn('no notes', { code: error.code, why: error.message });
  return '';
});
\`\`\`

Ids of another account, and of things that are gone, are refused alike. A grant that is taken back ends the calls under way.

### After the answer

A handler may leave work behind: a timer, a promise nobody awaits. It keeps the installation’s own scope (\`host.storage\`, \`host.secrets\`,
\`host.http\`, \`host.workspace\` and so on) and loses its session: \`host.session\` works only until the handler has answered. Log lines of such
work have the source \`background\`. The process may be stopped when nothing was asked of the plugin for a while.`;

/** The parts of a package that are no code. */
export const FILES = `## Commands and skills without code

\`commands/<name>.md\` is a command whose text is sent to the agent. \`$ARGUMENTS\` in it stands for what the user typed; without the mark that
follows the text. An optional frontmatter holds \`description\`. The capability is \`commands.<name>\`, as for code; a name that is there twice,
as code and as a file, is refused at publish.

\`\`\`markdown
---
description: Reviews a text
---
Review this text and list what is unclear: $ARGUMENTS
\`\`\`

\`skills/<name>/SKILL.md\` is a skill in the Agent Skills layout: \`name\` (the folder’s) and \`description\` in the frontmatter, then what an
agent reads when a task calls for it. It may lie beside other files. A package holds up to 128 of each.`;
