/** Prints the types of events, tools, commands, model providers and the channel. */
import type { z } from 'zod';
import { toolResult } from '../contract/payloads.ts';
import { eventEnvelope, events, handshakeOn, type SurfaceName, surfaces } from '../contract/protocol.ts';
import type { EventRow, SurfaceRow } from '../contract/rows.ts';
import { printDocComment, printInterface, SIGNAL } from './doc-comment.ts';
import { capitalize, isOptional, printLiteral, type TypePrinter } from './printer.ts';
import { describeResultLimit, formatSeconds } from './wording.ts';

const eventRows: readonly (readonly [string, EventRow])[] = Object.entries(events);

const CANCEL = [
  ...printDocComment('Refuses the call. The caller receives the reason (1-500 characters).'),
  'cancel(reason: string): never;',
];

export function printEventTypes(printer: TypePrinter): string[][] {
  const { type: _, data: __, ...envelope } = eventEnvelope.shape;
  const head = 'EventEnvelope<Type extends string, Data>';
  const members = [...printer.printProperties(envelope, 0), 'type: Type;', 'data: Data;', ...SIGNAL];
  const doc = 'The argument of an event handler. `id` is the same on every attempt; use it to handle the event once.';
  const handlers = eventRows.flatMap(([name, row]) => [
    ...printDocComment(row.doc, '', `Up to ${row.attempts} attempts of ${formatSeconds(row.budgetMs)} each.`),
    `${name}?: (event: EventEnvelope<${printLiteral(name)}, ${capitalize(name)}Data>) => Answer<void>;`,
  ]);
  return [
    printInterface([doc], head, members),
    ...eventRows.map(([name, row]) =>
      printInterface(
        [`The data of \`events.${name}\`.`],
        `${capitalize(name)}Data`,
        printer.printProperties(row.data.shape, 0),
      ),
    ),
    printInterface(['Lifecycle events, delivered at least once. Make handlers idempotent.'], 'Events', handlers),
  ];
}

export function printSurfaceTypes(printer: TypePrinter): string[][] {
  return [
    ...printNamed('tools', 'Tool', 'handler', printer),
    ...printNamed('commands', 'Command', 'handler', printer),
    ...printNamed('providers', 'Provider', 'chat', printer),
    ...printChannelTypes(printer),
  ];
}

function printNamed(kind: SurfaceName, type: string, handler: string, printer: TypePrinter): string[][] {
  const row: SurfaceRow = surfaces[kind];
  const registered = printer.printProperties(row.registration?.shape ?? {}, 0);
  const method = [...printDocComment(describeLimits(row)), printHandler(kind, row, handler, `${type}Context`, printer)];
  return [
    printContext(row, `${type}Context`, `The second argument of a handler of \`${kind}\`.`, printer, CANCEL),
    printInterface([row.doc], type, [...registered, ...method]),
  ];
}

function printChannelTypes(printer: TypePrinter): string[][] {
  const kinds = ['channel.receive', 'channel.send', 'channel.handshake'] as const;
  const members = kinds.flatMap((kind) => {
    const row: SurfaceRow = surfaces[kind];
    const method = printHandler(kind, row, `${kind.slice('channel.'.length)}?`, 'ChannelContext', printer);
    return [...printDocComment(row.doc, describeLimits(row)), method];
  });
  const on = [
    ...printDocComment(
      'Selects the POST requests that are a handshake: those with this header, and JSON bodies with this `type`. Every GET and OPTIONS request is one.',
    ),
    `handshakeOn?: ${printer.print(handshakeOn)};`,
  ];
  return [
    printContext(surfaces['channel.receive'], 'ChannelContext', 'The second argument of a channel handler.', printer),
    printInterface(['Receives a vendor’s webhooks and sends replies.'], 'Channel', [...members, ...on]),
  ];
}

function printContext(
  row: SurfaceRow,
  name: string,
  doc: string,
  printer: TypePrinter,
  more: readonly string[] = [],
): string[] {
  const rest = Object.fromEntries(Object.entries(row.params.shape).filter(([key]) => key !== row.first));
  return printInterface([doc], name, [...printer.printProperties(rest, 0), ...SIGNAL, ...more]);
}

function printHandler(kind: SurfaceName, row: SurfaceRow, name: string, context: string, printer: TypePrinter): string {
  return `${name}(${printFirstParameter(kind, row, printer)}, ctx: ${context}): Answer<${printAnswer(kind, row, printer)}>;`;
}

/**
 * `parameters` describes the type of a tool's arguments, so authors annotate it themselves: `object` with method syntax
 * accepts a handler with any object type.
 */
function printFirstParameter(kind: SurfaceName, row: SurfaceRow, printer: TypePrinter): string {
  if (kind === 'tools') return 'args: object';
  const schema = row.params.shape[row.first] as z.core.$ZodType;
  return `${row.first}: ${printer.print(schema)}`;
}

function printAnswer(kind: SurfaceName, row: SurfaceRow, printer: TypePrinter): string {
  const result = printResult(kind, row, printer);
  return row.delta ? `${result} | AsyncGenerator<${printer.print(row.delta)}, ${result}, void>` : result;
}

/** Adds the shorthands that the session API accepts: a string as a tool's or command's result, any JSON value as a tool's, and no `isError`. */
export function printResult(kind: SurfaceName, row: SurfaceRow, printer: TypePrinter): string {
  if (kind === 'tools')
    return `string | { content: ${printer.print(toolResult.shape.content)}; isError?: boolean } | Json`;
  const printed = printer.print(row.result);
  if (kind === 'commands') return `string | ${printed}`;
  return isOptional(row.result) && printed !== 'void' ? `${printed} | void` : printed;
}

function describeLimits(row: SurfaceRow): string {
  const limit = describeResultLimit(row);
  return [`Timeout: ${formatSeconds(row.budgetMs)}.`, ...(limit ? [`${capitalize(limit)}.`] : [])].join(' ');
}
