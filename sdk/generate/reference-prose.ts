/** Hand-written parts of the reference: what fields mean, how calls fail, and packages without code. */
import { limits } from '../contract/limits.ts';
import type { hookBase, SurfaceName } from '../contract/protocol.ts';

/** The fields that every hook context has. */
export const contextFields: Readonly<Record<keyof typeof hookBase.shape, string>> = {
  hook: 'The name of the hook.',
  invocationId: 'The id of this call. Log lines that the handler writes carry it.',
  settings: 'The settings of the installation, as in `host.settings`.',
  agent: 'The agent that the operation belongs to.',
  session: 'The session, and the channel it arrived on, if any.',
  trigger: 'The cause of the operation.',
  at: 'When the handler was called, ISO 8601 in UTC.',
  deadlineAt:
    'When the budget ends, as known when the handler was called. Waiting for a model, an SSH host or a processor gives the handler more time and does not change this value.',
  repeated:
    'Set where a plugin that the user requires is asked again about the same operation, because another plugin changed the context after it, or because the message waited meanwhile. Check it again, do not count it a second time, and add your text only if it is missing.',
};

/** The consequences of a surface's handler that throws, returns a malformed result or times out. */
export const surfaceFailures: Readonly<Record<SurfaceName, string>> = {
  tools:
    'a thrown error becomes a result with `isError` and its message, so that the agent can correct its call; a malformed result or a timeout fails the call',
  commands: 'the call fails with the message of the thrown error',
  providers:
    'the call fails; an agent runtime of the account gets the message of the error, another plugin that calls `host.llm` does not; the plugin’s log has it',
  'channel.receive':
    'the request is retried, up to 6 attempts in 80 minutes, then kept for a manual replay; after two failures the channel’s later requests pass it',
  'channel.send':
    'the reply is retried, up to 6 attempts in 80 minutes, then kept for a manual replay; after two failures replies of other conversations pass it',
  'channel.handshake': 'the request is queued for `channel.receive`',
};

/** Explains the column “On failure” in the table of hooks. */
export const FAILURE_LEGEND = `On failure, \`skip\` continues the chain as if the handler had returned nothing, \`cancel\` cancels the operation, and \`builtin\` runs
the built-in implementation. Where the user requires the plugin, every failure cancels the operation, also in hooks that cannot cancel. The plugin’s log records failures, cancellations and skipped hooks (the plugin is paused, not configured,
blocked or does not start) with the source \`system\`. Repeated reasons are logged once an hour.`;

/** Follows the sections of `## host`. */
export const HOST_CALLS = `### Calls that fail

A call that fails rejects with an \`Error\` that has a \`message\` for people and a \`code\`:

| \`code\` | Reason |
| --- | --- |
| \`denied\` | The capability is not granted or was revoked, or a quota is exceeded. |
| \`failed\` | The arguments are not valid, the resource does not exist, or the other side refused. \`message\` has the reason. |
| \`timeout\` | The call took longer than its timeout. |
| \`cancelled\` | The handler that made the call has ended, or the plugin is being stopped. |

A plugin can have 80 calls in flight. Further calls are refused without a code.

\`\`\`ts
const text = await host.workspace.readText('notes/today.md').catch((error) => {
  // Only a missing file is an empty one. After any other error, writing the text back would erase the notes.
  if (error.message.includes('no such file or directory')) return '';
  throw error;
});
\`\`\`

An id of another account fails in the same way as an id that does not exist. Revoking a grant ends the calls in flight.

### After a handler returns

Timers and promises of a handler continue after it returns. They keep access to the installation’s own data (\`host.storage\`,
\`host.secrets\`, \`host.http\`, \`host.workspace\` and so on). \`host.session\` works only until the handler returns. Log lines of such
work have the source \`background\`. A process without calls is stopped after ten minutes, or at once if another plugin needs its place. Timers and
unfinished work then end without a line in the log, so await what must be done before you return.`;

/** The parts of a package without code. */
export const FILES = `## Commands and skills without code

\`commands/<name>.md\` is a command whose text is sent to the agent. \`$ARGUMENTS\` is replaced by the user’s input; without it, the input is
appended. The optional frontmatter has a \`description\`. The capability is \`commands.<name>\`, as for a command in code. A name that is
used both in code and as a file is refused at publish.

\`\`\`markdown
---
description: Reviews a text
---
Review this text and list what is unclear: $ARGUMENTS
\`\`\`

\`skills/<name>/SKILL.md\` is a skill in the Agent Skills layout: frontmatter with \`name\` (the name of the folder) and \`description\`, then
the instructions for the agent. The folder may have other files. A package can have up to ${limits.commands} commands and ${limits.skills} skills.`;
