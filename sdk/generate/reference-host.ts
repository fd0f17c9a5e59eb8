/** The reference's sections on `host` and on limits. */

import { hostExamples, listExampleArguments } from '../contract/host-examples.ts';
import { limits } from '../contract/limits.ts';
import { capabilities, type HostCallName, httpReach } from '../contract/protocol.ts';
import type { CapabilityRow, HostRow } from '../contract/rows.ts';
import { callsOf, members, signature } from './host-types.ts';
import type { TypePrinter } from './printer.ts';
import { HOST_CALLS } from './reference-prose.ts';
import { valueText } from './value-text.ts';
import { count, grant, seconds, size } from './wording.ts';

const capabilityRows: Readonly<Record<string, CapabilityRow>> = capabilities;

/** `## host` and one entry per member. */
export function hostSection(printer: TypePrinter): string {
  const head = `## host

\`host\` holds what the installation was granted and nothing else: a member that was not declared in \`readme.md\`, or not accepted,
is \`undefined\`. Three members are always there: \`host.log\`, \`host.settings\` and \`host.secrets\`.

### host.log

\`\`\`ts
host.log('Forecast fetched', { city: 'Bern' });
host.log.warn('The vendor answered slowly');
\`\`\`

Levels are \`debug\`, \`info\`, \`warn\` and \`error\`; \`host.log\` itself is \`info\`, and \`console\` writes to the same log.

### host.settings

The installation’s settings as strings, with the defaults of \`readme.md\` filled in. Every context carries them as \`ctx.settings\` too.`;
  return [head, ...members.map((member) => memberEntry(member, printer)), HOST_CALLS].join('\n\n');
}

function memberEntry(member: string, printer: TypePrinter): string {
  const calls = callsOf(member).map(([method, row]) => callEntry(member, method, row, printer));
  return [`### host.${member}`, ...reachLines(member), ...calls].join('\n\n');
}

function reachLines(member: string): string[] {
  if (member === 'http')
    return [
      `Capability \`host.http:<host or *.host>\`: “${httpReach.reach.replace('{host}', '<host>')}” (${httpReach.risk} risk)`,
    ];
  const row = capabilityRows[member];
  if (row === undefined) return [];
  const lines = [`- \`host.${member}\`: “${row.reach}” (${row.risk} risk)`];
  if (row.read) lines.push(`- \`host.${member}:read\`: “${row.read.reach}” (${row.read.risk} risk)`);
  return [lines.join('\n')];
}

function callEntry(member: string, method: string, row: HostRow, printer: TypePrinter): string {
  const waits = row.pausesBudget ? ' Waiting for it does not count against the handler’s budget.' : '';
  return `\`\`\`typescript
host.${member}.${signature(method, row, printer)}
\`\`\`
${row.doc} ${grant(row)} Ends after ${seconds(row.timeoutMs)}; arguments and answer hold at most ${size(row.maxBytes)}.${waits}

\`\`\`ts
${exampleOf(`${member}.${method}` as HostCallName)}
\`\`\``;
}

function exampleOf(name: HostCallName): string {
  const call = `await host.${name}(${listExampleArguments(name).map(valueText).join(', ')});`;
  const { result } = hostExamples[name];
  return result === undefined ? call : `const answer = ${call}\n// ${valueText(result)}`;
}

/** `## Limits`. */
export function limitsSection(): string {
  return `## Limits

| What | At most |
| --- | --- |
| A whole chain of hooks | ${seconds(limits.chainBudgetMs)} |
| Loading \`index.ts\` | ${seconds(limits.loadBudgetMs)} |
| A summary | ${count(limits.summaryMaxChars)} characters |
| Handlers of one installation running at once | ${count(limits.callsInFlight)}, and ${count(limits.callsWaiting)} waiting |
| Host calls a minute | ${count(limits.hostCallsPerMinute)} |
| Log lines a minute | ${count(limits.logLinesPerMinute)} |
| A log message, and its data | ${size(limits.logMessageBytes)}, ${size(limits.logDataBytes)} |
| A tool’s answer | ${size(limits.toolResultBytes)} |
| \`host.storage\` of one installation | ${size(limits.storageBytes)} |
| \`host.workspace\` of one account | ${size(limits.workspaceBytes)} in ${count(limits.workspaceFiles)} files and folders |
| \`host.media\` of one account, and one file | ${size(limits.mediaBytes)} in ${count(limits.mediaFiles)} files, ${size(limits.mediaItemBytes)} |
| Memory: heap, and all of the process | ${limits.heapMegabytes} MB, ${limits.residentMegabytes} MB |
| Tools, commands, providers | ${limits.tools}, ${limits.commands}, ${limits.providers} |

Quotas are settings of whoever runs Bulkhead; these are the defaults.`;
}
