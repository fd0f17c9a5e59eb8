/** Prints the types of hooks: their contexts and the patches they may return. */
import type { z } from 'zod';
import { hookBase, hooks } from '../contract/protocol.ts';
import type { HookRow } from '../contract/rows.ts';
import { indent, printDocComment, printInterface, SIGNAL } from './doc-comment.ts';
import { capitalize, printKey, printLiteral, type TypePrinter } from './printer.ts';
import { describeCancel, describeFailure, describeReturn, formatSeconds } from './wording.ts';

const rows: readonly (readonly [string, HookRow])[] = Object.entries(hooks);

export function printHookTypes(printer: TypePrinter): string[][] {
  const { hook: _, ...base } = hookBase.shape;
  const common = printInterface(['The fields that every hook context has.'], 'HookContext', [
    ...printer.printProperties(base, 0),
    ...SIGNAL,
  ]);
  return [
    common,
    ...rows.flatMap(([name, row]) => [printContext(name, row, printer), ...printPatch(name, row, printer)]),
    printGroup('Middleware', 'middleware', 'Hooks that run before your agents act. Assign a handler to use one.'),
    printGroup('Compaction', 'compaction', 'Summarizes long conversations.'),
  ];
}

/** `middleware.systemPrompt` → `SystemPrompt`. */
const typeName = (hook: string): string => capitalize(hook.slice(hook.indexOf('.') + 1));

function printContext(name: string, row: HookRow, printer: TypePrinter): string[] {
  const cancel = [
    ...printDocComment('Cancels the operation. The transcript shows the reason (1-500 characters).'),
    'cancel(reason: string): never;',
  ];
  return printInterface([`The context of \`${name}\`.`], `${typeName(name)}Context extends HookContext`, [
    `hook: ${printLiteral(name)};`,
    ...printer.printProperties(row.context.shape, 0),
    ...(row.cancellable ? cancel : []),
  ]);
}

function printPatch(name: string, row: HookRow, printer: TypePrinter): string[][] {
  if (row.answers.kind !== 'patch' || row.answers.patchable.length === 0) return [];
  const doc = `The patch that \`${name}\` may return. Set only the fields to change. Fields of type \`never\` cannot be changed.`;
  return [
    printInterface([doc], `${typeName(name)}Patch`, printPatchMembers(row.context, row.answers.patchable, printer)),
  ];
}

/**
 * Declares fields that cannot be changed as `never`: TypeScript accepts excess properties in the return value of an arrow
 * function, and the supervisor would ignore them.
 */
function printPatchMembers(context: z.core.$ZodObject, paths: readonly string[], printer: TypePrinter): string[] {
  return Object.entries(context._zod.def.shape).flatMap(([key, schema]) => {
    if (paths.includes(key)) return [`${printKey(key)}?: ${printer.print(schema)};`];
    const below = paths.filter((path) => path.startsWith(`${key}.`)).map((path) => path.slice(key.length + 1));
    const { def } = (schema as z.core.$ZodTypes)._zod;
    if (below.length === 0 || def.type !== 'object') return [`${printKey(key)}?: never;`];
    return [`${printKey(key)}?: {`, ...indent(printPatchMembers(schema as z.core.$ZodObject, below, printer)), '};'];
  });
}

function printGroup(interfaceName: string, group: string, doc: string): string[] {
  const members = rows
    .filter(([name]) => name.startsWith(`${group}.`))
    .flatMap(([name, row]) => [
      ...printDocComment(
        row.doc,
        '',
        `Return ${describeReturn(row)}`,
        `Cancel: ${describeCancel(row)} On an error or after ${formatSeconds(row.budgetMs)}, ${describeFailure(row.onFailure)}.`,
      ),
      `${name.slice(group.length + 1)}?: ${printHandlerType(name, row)};`,
    ]);
  return printInterface([doc], interfaceName, members);
}

function printHandlerType(name: string, row: HookRow): string {
  const handler = `(ctx: ${typeName(name)}Context) => ${printAnswerType(name, row)}`;
  return row.streams ? `(${handler}) | { stream: boolean; handler: ${handler} }` : handler;
}

function printAnswerType(name: string, row: HookRow): string {
  if (row.answers.kind === 'replace') return 'Answer<string | void>';
  return row.answers.patchable.length === 0 ? 'Answer<void>' : `Answer<${typeName(name)}Patch | void>`;
}
