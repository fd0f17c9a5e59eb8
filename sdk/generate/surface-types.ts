/** Types of what a plugin registers beside hooks: events, tools, commands, model providers and the channel. */
import type { z } from 'zod';
import { toolResult } from '../contract/payloads.ts';
import { eventEnvelope, events, handshakeOn, type SurfaceName, surfaces } from '../contract/protocol.ts';
import type { EventRow, SurfaceRow } from '../contract/rows.ts';
import { docComment, interfaceOf } from './doc-comment.ts';
import { isOptional, literal, type TypePrinter } from './printer.ts';
import { seconds, size } from './wording.ts';

const eventRows: readonly (readonly [string, EventRow])[] = Object.entries(events);
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const SIGNAL = [...docComment('Aborts at the deadline.'), 'signal: AbortSignal;'];
const CANCEL = [
  ...docComment('Refuses the call, with a reason that whoever called may read (1-500 characters).'),
  'cancel(reason: string): never;',
];

/** Declarations of the event envelope, every event's data, and `events` itself. */
export function eventTypes(printer: TypePrinter): string[][] {
  const { type: _, data: __, ...envelope } = eventEnvelope.shape;
  const head = 'EventEnvelope<Type extends string, Data>';
  const members = [...printer.properties(envelope, 0), 'type: Type;', 'data: Data;', ...SIGNAL];
  const doc = 'What an event handler gets. `id` is the same on every attempt: use it to do things once.';
  const handlers = eventRows.flatMap(([name, row]) => [
    ...docComment(row.doc, '', `Up to ${row.attempts} attempts of ${seconds(row.budgetMs)} each.`),
    `${name}?: (event: EventEnvelope<${literal(name)}, ${capital(name)}Data>) => Answer<void>;`,
  ]);
  return [
    interfaceOf([doc], head, members),
    ...eventRows.map(([name, row]) =>
      interfaceOf([`What \`events.${name}\` carries.`], `${capital(name)}Data`, printer.properties(row.data.shape, 0)),
    ),
    interfaceOf(['Notifications, delivered at least once: make handlers idempotent.'], 'Events', handlers),
  ];
}

/** Declarations of tools, commands, providers and the channel. */
export function surfaceTypes(printer: TypePrinter): string[][] {
  return [
    ...named('tools', 'Tool', 'handler', printer),
    ...named('commands', 'Command', 'handler', printer),
    ...named('providers', 'Provider', 'chat', printer),
    ...channelTypes(printer),
  ];
}

function named(kind: SurfaceName, type: string, handler: string, printer: TypePrinter): string[][] {
  const row: SurfaceRow = surfaces[kind];
  const registered = printer.properties(row.registration?.shape ?? {}, 0);
  const method = [...docComment(limitsOf(row)), handlerOf(kind, row, handler, `${type}Context`, printer)];
  return [
    contextOf(row, `${type}Context`, `What the handler of \`${kind}\` gets as its second argument.`, printer, CANCEL),
    interfaceOf([row.doc], type, [...registered, ...method]),
  ];
}

function channelTypes(printer: TypePrinter): string[][] {
  const kinds = ['channel.receive', 'channel.send', 'channel.handshake'] as const;
  const members = kinds.flatMap((kind) => {
    const row: SurfaceRow = surfaces[kind];
    const method = handlerOf(kind, row, `${kind.slice('channel.'.length)}?`, 'ChannelContext', printer);
    return [...docComment(row.doc, limitsOf(row)), method];
  });
  const on = [
    ...docComment('POST bodies that are a handshake: JSON whose `type` is this. A GET always is one.'),
    `handshakeOn?: ${printer.print(handshakeOn)};`,
  ];
  return [
    contextOf(
      surfaces['channel.receive'],
      'ChannelContext',
      'What channel handlers get as their second argument.',
      printer,
    ),
    interfaceOf(['An inbox for a vendor’s webhooks.'], 'Channel', [...members, ...on]),
  ];
}

function contextOf(
  row: SurfaceRow,
  name: string,
  doc: string,
  printer: TypePrinter,
  more: readonly string[] = [],
): string[] {
  const rest = Object.fromEntries(Object.entries(row.params.shape).filter(([key]) => key !== row.first));
  return interfaceOf([doc], name, [...printer.properties(rest, 0), ...SIGNAL, ...more]);
}

function handlerOf(kind: SurfaceName, row: SurfaceRow, name: string, context: string, printer: TypePrinter): string {
  return `${name}(${firstOf(kind, row, printer)}, ctx: ${context}): Answer<${resultOf(kind, row, printer)}>;`;
}

/**
 * A tool's arguments have the type its own `parameters` describe, which is for the author to write down: `object` with
 * method syntax lets a handler name any object type, an interface as well as a literal one.
 */
function firstOf(kind: SurfaceName, row: SurfaceRow, printer: TypePrinter): string {
  if (kind === 'tools') return 'args: object';
  const schema = row.params.shape[row.first] as z.core.$ZodType;
  return `${row.first}: ${printer.print(schema)}`;
}

/** The session API takes a text for a tool's content and a command's answer, and no `isError` for false. */
export function resultOf(kind: SurfaceName, row: SurfaceRow, printer: TypePrinter): string {
  if (kind === 'tools') return `string | { content: ${printer.print(toolResult.shape.content)}; isError?: boolean }`;
  const printed = printer.print(row.result);
  if (kind === 'commands') return `string | ${printed}`;
  return isOptional(row.result) && printed !== 'void' ? `${printed} | void` : printed;
}

const limitsOf = (row: SurfaceRow): string =>
  `Ends after ${seconds(row.budgetMs)}; the answer holds at most ${size(row.maxResultBytes)}.`;
