/** Types of `host`: one member per capability, one method per row, positional arguments by their names. */
import { hostCalls } from '../contract/protocol.ts';
import type { HostRow } from '../contract/rows.ts';
import { docComment, interfaceOf } from './doc-comment.ts';
import { isOptional, type TypePrinter } from './printer.ts';
import { grant, seconds } from './wording.ts';

const rows: readonly (readonly [string, HostRow])[] = Object.entries(hostCalls);
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** `storage.get` → `['storage', 'get']`. */
export function splitCall(name: string): [member: string, method: string] {
  const dot = name.indexOf('.');
  return [name.slice(0, dot), name.slice(dot + 1)];
}

/** The host members in the order of the rows. */
export const members: readonly string[] = [...new Set(rows.map(([name]) => splitCall(name)[0]))];

/** The rows of one member, by method name. */
export const callsOf = (member: string): (readonly [method: string, row: HostRow])[] =>
  rows.filter(([name]) => splitCall(name)[0] === member).map(([name, row]) => [splitCall(name)[1], row]);

/** `get(key: string): Promise<Json | null>`. */
export function signature(method: string, row: HostRow, printer: TypePrinter): string {
  const params = Object.entries(row.params).map(
    ([name, schema]) => `${name}${isOptional(schema) ? '?' : ''}: ${printer.print(schema)}`,
  );
  return `${method}(${params.join(', ')}): Promise<${printer.print(row.result)}>`;
}

/** Declarations of every host member and of `host` itself. */
export function hostTypes(printer: TypePrinter): string[][] {
  const declared = members.map((member) =>
    interfaceOf(
      [`\`host.${member}\``],
      `Host${capital(member)}`,
      callsOf(member).flatMap(([method, row]) => [
        ...docComment(row.doc, `${grant(row)} Ends after ${seconds(row.timeoutMs)}.`),
        `${signature(method, row, printer)};`,
      ]),
    ),
  );
  return [...declared, hostItself(), ...declaredHost()];
}

function hostItself(): string[] {
  const doc = [
    'What this plugin may reach. A member whose capability is not declared in `readme.md`, or not granted, does not exist:',
    'reading it gives `undefined`.',
  ].join(' ');
  const granted = members.flatMap((member) => {
    return [...docComment(presence(member)), `readonly ${member}: Host${capital(member)};`];
  });
  return interfaceOf([doc], 'Host', [
    ...docComment('Writes a line to the plugin’s log, at level `info`.'),
    'readonly log: Log;',
    ...docComment('The installation’s settings, with the defaults of `readme.md` filled in.'),
    'readonly settings: Settings;',
    ...granted,
  ]);
}

/** What a package that says its capabilities in a type may reach: the same rule by which the supervisor hands out members. */
function declaredHost(): string[][] {
  const isGiven = (member: string) => callsOf(member).every(([, row]) => row.capability === null);
  const reads = members.flatMap((member) => {
    const calls = isGiven(member) || member === 'http' ? [] : callsOf(member).filter(([, row]) => row.readable);
    return calls.length === 0 ? [] : [`${member}: ${calls.map(([method]) => `'${method}'`).join(' | ')};`];
  });
  const given = ['log', 'settings', ...members.filter(isGiven)].map((name) => `'${name}'`).join(' | ');
  return [
    interfaceOf(['The calls of a member that `host.<member>:read` grants.'], 'ReadCalls', reads),
    [
      ...docComment(
        'Say here what `readme.md` declares, and using anything else is a compile error:',
        "`declare namespace Bulkhead { interface Package { capabilities: 'host.llm' | 'host.workspace:read' } }`",
        'in a `.d.ts` file. Without it every member is typed, granted or not.',
      ),
      'interface Package {}',
    ],
    grantedTypes(given),
    [
      ...docComment('`host` with the members that these capabilities grant.'),
      'type GrantedHost<Granted extends string> = {',
      '  readonly [Member in keyof Host as GrantedMember<Member, Granted>]: GrantedCalls<Member, Granted>;',
      '};',
    ],
    [
      'type DeclaredHost = Package extends { capabilities: infer Granted extends string } ? GrantedHost<Granted> : Host;',
    ],
  ];
}

const grantedTypes = (given: string): string[] =>
  `type GrantedMember<Member extends string, Granted extends string> =
  Member extends ${given} ? Member
  : \`host.\${Member}\` extends Granted ? Member
  : \`host.\${Member}:read\` extends Granted ? Member
  : Member extends 'http' ? ([Extract<Granted, \`host.http:\${string}\`>] extends [never] ? never : Member)
  : never;
type GrantedCalls<Member extends keyof Host, Granted extends string> =
  \`host.\${Member}\` extends Granted ? Host[Member]
  : Member extends keyof ReadCalls ? Pick<Host[Member], ReadCalls[Member] & keyof Host[Member]>
  : Host[Member];`.split('\n');

function presence(member: string): string {
  const rowsOfMember = callsOf(member).map(([, row]) => row);
  if (rowsOfMember.every((row) => row.capability === null)) return 'Always there.';
  if (member === 'http') return 'There once a `host.http:<host>` is granted.';
  const readOnly = rowsOfMember.some((row) => row.readable) ? ` With \`host.${member}:read\`, only what reads.` : '';
  return `There once \`host.${member}\` is granted.${readOnly}`;
}
