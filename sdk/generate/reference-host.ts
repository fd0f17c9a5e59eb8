/** Prints the reference's sections on `host` and on limits. */

import { hostExamples, listExampleArguments } from '../contract/host-examples.ts';
import { limits } from '../contract/limits.ts';
import { capabilities, type HostCallName, hostCalls, httpReach, PAUSED_MAX_MS } from '../contract/protocol.ts';
import type { CapabilityRow, HostRow } from '../contract/rows.ts';
import { listCalls, members, printSignature } from './host-types.ts';
import { printValue, type TypePrinter } from './printer.ts';
import { HOST_CALLS } from './reference-prose.ts';
import { describeGrant, formatBytes, formatCount, formatSeconds } from './wording.ts';

const capabilityRows: Readonly<Record<string, CapabilityRow>> = capabilities;

export function printHostSection(printer: TypePrinter): string {
  const head = `## host

\`host\` has one member per granted capability. A member is \`undefined\` if \`readme.md\` does not declare its capability or the account did
not grant it. \`host.assets\`, \`host.log\`, \`host.settings\` and \`host.secrets\` are always available.

### host.log

\`\`\`ts
host.log('Forecast fetched', { city: 'Bern' });
host.log.warn('The vendor responded slowly', { ms: 4200 });
\`\`\`

The levels are \`debug\`, \`info\`, \`warn\` and \`error\`. \`host.log\` logs at \`info\`. \`console\` writes to the same log.
The data is written as JSON: a \`Map\` as the list of its entries, a \`Set\` as the list of its values, and an error with its message and stack.

### host.settings

The settings of the installation as strings. Settings without a value have the default of \`readme.md\`. Every context has them as
\`ctx.settings\` too.`;
  return [head, ...members.map((member) => printMemberEntry(member, printer)), HOST_CALLS].join('\n\n');
}

function printMemberEntry(member: string, printer: TypePrinter): string {
  const calls = listCalls(member).map(([method, row]) => printCallEntry(member, method, row, printer));
  return [`### host.${member}`, ...printReachLines(member), ...calls].join('\n\n');
}

function printReachLines(member: string): string[] {
  if (member === 'http')
    return [
      `Capability \`host.http:<host or *.host>\`: “${httpReach.reach.replace('{host}', '<host>')}” (${httpReach.risk} risk)`,
    ];
  const row = capabilityRows[member];
  if (row === undefined) return [];
  const { read } = row;
  return [
    `- \`host.${member}\`: “${row.reach}” (${row.risk} risk)\n- \`host.${member}:read\`: “${read.reach}” (${read.risk} risk)`,
  ];
}

function printCallEntry(member: string, method: string, row: HostRow, printer: TypePrinter): string {
  const waits =
    row.budget === 'paused'
      ? ` Waiting for it does not count towards the handler’s budget, up to ${formatSeconds(PAUSED_MAX_MS)} in one call of the handler.`
      : '';
  const isVoid = printer.print(row.result) === 'void';
  const size = isVoid ? '' : ` The result may have at most ${formatBytes(row.maxBytes)}.`;
  return `\`\`\`typescript
host.${member}.${printSignature(method, row, printer)}
\`\`\`
${row.doc} ${describeGrant(row)} Timeout: ${formatSeconds(row.timeoutMs)}.${size}${waits}

\`\`\`ts
${printExample(`${member}.${method}` as HostCallName)}
\`\`\``;
}

function printExample(name: HostCallName): string {
  const call = `await host.${name}(${listExampleArguments(name).map(printValue).join(', ')});`;
  const { result } = hostExamples[name];
  return result === undefined ? call : `const result = ${call}\n// ${printValue(result)}`;
}

export function printLimitsSection(): string {
  return `## Limits

| Limit | Maximum |
| --- | --- |
| Duration of a whole chain of hooks | ${formatSeconds(limits.chainBudgetMs)}, besides the time for which its handlers wait for a model, an SSH host or late answers of the host |
| Duration of loading \`index.ts\` | ${formatSeconds(limits.loadBudgetMs)} |
| Length of a summary | ${formatCount(limits.summaryMaxChars)} characters |
| Concurrent calls of one installation | ${formatCount(limits.callsInFlight)} running, ${formatCount(limits.callsWaiting)} waiting |
| Host calls per minute | ${formatCount(limits.hostCallsPerMinute)} |
| Log lines per minute | ${formatCount(limits.logLinesPerMinute)} |
| Size of a log message and of its data | ${formatBytes(limits.logMessageBytes)}, ${formatBytes(limits.logDataBytes)} |
| Size of a tool result | ${formatBytes(limits.toolResultBytes)} |
| Size of the arguments of one host call | ${formatBytes(limits.frameBytes)} of JSON, with bytes as base64 |
| \`host.storage\` per installation | ${formatBytes(limits.storageBytes)} in ${formatCount(limits.storageKeys)} keys |
| \`host.workspace\` per account | ${formatBytes(limits.workspaceBytes)} in ${formatCount(limits.workspaceFiles)} files and folders; ${formatBytes(hostCalls['workspace.read'].maxBytes)} per file |
| \`host.media\` per account | ${formatBytes(limits.mediaBytes)} in ${formatCount(limits.mediaFiles)} files; ${formatBytes(limits.mediaItemBytes)} per file |
| Memory | ${limits.heapMegabytes} MB heap, ${limits.residentMegabytes} MB resident |
| Number of tools, commands, skills, providers | ${limits.tools}, ${limits.commands}, ${limits.skills}, ${limits.providers} |

These are the defaults. Operators can change them, except the durations, the length of a summary, the number of keys, the size of one file, and the
number of tools, commands, skills and providers.`;
}
