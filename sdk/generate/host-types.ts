/** Prints the types of `host`: one member per capability, one method per row. */
import { hostCalls } from '../contract/protocol.ts';
import type { HostRow } from '../contract/rows.ts';
import { printDocComment, printInterface } from './doc-comment.ts';
import { capitalize, isOptional, type TypePrinter } from './printer.ts';
import { describeGrant, formatSeconds } from './wording.ts';

const rows: readonly (readonly [string, HostRow])[] = Object.entries(hostCalls);

/** `storage.get` → `['storage', 'get']`. */
function splitCall(name: string): [member: string, method: string] {
  const dot = name.indexOf('.');
  return [name.slice(0, dot), name.slice(dot + 1)];
}

/** The host members in the order of the rows. */
export const members: readonly string[] = [...new Set(rows.map(([name]) => splitCall(name)[0]))];

/** The rows of one member, by method name. */
export const listCalls = (member: string): (readonly [method: string, row: HostRow])[] =>
  rows.filter(([name]) => splitCall(name)[0] === member).map(([name, row]) => [splitCall(name)[1], row]);

/** `get(key: string): Promise<Json | null>`. */
export function printSignature(method: string, row: HostRow, printer: TypePrinter): string {
  const params = Object.entries(row.params).map(
    ([name, schema]) => `${name}${isOptional(schema) ? '?' : ''}: ${printer.print(schema)}`,
  );
  return `${method}(${params.join(', ')}): Promise<${printer.print(row.result)}>`;
}

export function printHostTypes(printer: TypePrinter): string[][] {
  const declared = members.map((member) =>
    printInterface(
      [`\`host.${member}\``],
      `Host${capitalize(member)}`,
      listCalls(member).flatMap(([method, row]) => [
        ...printDocComment(row.doc, `${describeGrant(row)} Timeout: ${formatSeconds(row.timeoutMs)}.`),
        `${printSignature(method, row, printer)};`,
      ]),
    ),
  );
  return [...declared, printHost(), ...printDeclaredHost()];
}

function printHost(): string[] {
  const doc = [
    'The host calls of this plugin. A member is `undefined` if `readme.md` does not declare its capability or the account',
    'did not grant it.',
  ].join(' ');
  const granted = members.flatMap((member) => {
    return [...printDocComment(describePresence(member)), `readonly ${member}: Host${capitalize(member)};`];
  });
  return printInterface([doc], 'Host', [
    ...printDocComment('Writes a line to the plugin’s log at level `info`.'),
    'readonly log: Log;',
    ...printDocComment('The settings of the installation. Settings without a value have the default of `readme.md`.'),
    'readonly settings: Settings;',
    ...granted,
  ]);
}

/** Types `host` by the capabilities that a package declares in TypeScript, with the same rule as the supervisor. */
function printDeclaredHost(): string[][] {
  const isGiven = (member: string) => listCalls(member).every(([, row]) => row.capability === null);
  const reads = members.flatMap((member) => {
    const calls = isGiven(member) || member === 'http' ? [] : listCalls(member).filter(([, row]) => row.readable);
    return calls.length === 0 ? [] : [`${member}: ${calls.map(([method]) => `'${method}'`).join(' | ')};`];
  });
  const always = ['log', 'settings', ...members.filter(isGiven)].map((name) => `'${name}'`).join(' | ');
  return [
    printInterface(['The calls that `host.<member>:read` grants.'], 'ReadCalls', reads),
    [
      ...printDocComment(
        'Repeat the capabilities of `readme.md` in a `.d.ts` file to make every other host call a compile error:',
        "`declare namespace Bulkhead { interface Package { capabilities: 'host.llm' | 'host.workspace:read' } }`.",
        'Without it every host call compiles, granted or not.',
      ),
      'interface Package {}',
    ],
    printGrantedTypes(always),
    [
      ...printDocComment('The part of `host` that these capabilities grant.'),
      'type GrantedHost<Granted extends string> = {',
      '  readonly [Member in keyof Host as GrantedMember<Member, Granted>]: GrantedCalls<Member, Granted>;',
      '};',
    ],
    [
      'type DeclaredHost = Package extends { capabilities: infer Granted extends string } ? GrantedHost<Granted> : Host;',
    ],
  ];
}

const printGrantedTypes = (always: string): string[] =>
  `type GrantedMember<Member extends string, Granted extends string> =
  Member extends ${always} ? Member
  : \`host.\${Member}\` extends Granted ? Member
  : \`host.\${Member}:read\` extends Granted ? Extract<Member, keyof ReadCalls>
  : Member extends 'http' ? ([Extract<Granted, \`host.http:\${string}\`>] extends [never] ? never : Member)
  : never;
type GrantedCalls<Member extends keyof Host, Granted extends string> =
  \`host.\${Member}\` extends Granted ? Host[Member]
  : Member extends keyof ReadCalls ? Pick<Host[Member], ReadCalls[Member] & keyof Host[Member]>
  : Host[Member];`.split('\n');

function describePresence(member: string): string {
  const rowsOfMember = listCalls(member).map(([, row]) => row);
  if (rowsOfMember.every((row) => row.capability === null)) return 'Always available.';
  if (member === 'http') return 'Available if a `host.http:<host>` is granted.';
  const readOnly = rowsOfMember.some((row) => row.readable)
    ? ` \`host.${member}:read\` grants only the calls that read.`
    : ` \`host.${member}:read\` grants no call.`;
  return `Available if \`host.${member}\` is granted.${readOnly}`;
}
