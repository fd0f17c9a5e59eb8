/** Types of hooks: the context each one gets and the answer each one may give, derived from the rows. */
import type { z } from 'zod';
import { hookBase, hooks } from '../contract/protocol.ts';
import type { HookRow } from '../contract/rows.ts';
import { docComment, indent, interfaceOf } from './doc-comment.ts';
import { literal, propertyKey, type TypePrinter } from './printer.ts';
import { cancels, onFailure, returns, seconds } from './wording.ts';

const rows: readonly (readonly [string, HookRow])[] = Object.entries(hooks);
const SIGNAL = [...docComment('Aborts at the deadline.'), 'signal: AbortSignal;'];

/** Declarations of all hook contexts and patches, and of the objects that hooks are assigned to. */
export function hookTypes(printer: TypePrinter): string[][] {
  const { hook: _, ...base } = hookBase.shape;
  const common = interfaceOf(['What every hook gets beside its own fields.'], 'HookContext', [
    ...printer.properties(base, 0),
    ...SIGNAL,
  ]);
  return [
    common,
    ...rows.flatMap(([name, row]) => [contextOf(name, row, printer), ...patchOf(name, row, printer)]),
    groupOf('Middleware', 'middleware', 'Hooks around what your agents do. Assign a handler to take part.'),
    groupOf('Compaction', 'compaction', 'The summary that replaces a long conversation.'),
  ];
}

/** `middleware.systemPrompt` → `SystemPrompt`. */
const typeName = (hook: string): string => {
  const own = hook.slice(hook.indexOf('.') + 1);
  return own.charAt(0).toUpperCase() + own.slice(1);
};

function contextOf(name: string, row: HookRow, printer: TypePrinter): string[] {
  const cancel = [
    ...docComment('Stops the operation, with the reason for the transcript (1-500 characters).'),
    'cancel(reason: string): never;',
  ];
  return interfaceOf([`What \`${name}\` gets.`], `${typeName(name)}Context extends HookContext`, [
    `hook: ${literal(name)};`,
    ...printer.properties(row.context.shape, 0),
    ...(row.cancellable ? cancel : []),
  ]);
}

function patchOf(name: string, row: HookRow, printer: TypePrinter): string[][] {
  if (row.answers.kind !== 'patch' || row.answers.patchable.length === 0) return [];
  const doc = `What \`${name}\` may return: only what changes, so not the whole object spread. \`never\`: cannot be changed.`;
  return [interfaceOf([doc], `${typeName(name)}Patch`, patchMembers(row.context, row.answers.patchable, printer))];
}

/**
 * The members of a patch. What may not be changed is declared as `never`, because TypeScript does not look for surplus
 * properties in what an arrow function returns, and a patch that is silently ignored is worse than an error.
 */
function patchMembers(context: z.core.$ZodObject, paths: readonly string[], printer: TypePrinter): string[] {
  return Object.entries(context._zod.def.shape).flatMap(([key, schema]) => {
    if (paths.includes(key)) return [`${propertyKey(key)}?: ${printer.print(schema)};`];
    const below = paths.filter((path) => path.startsWith(`${key}.`)).map((path) => path.slice(key.length + 1));
    const { def } = (schema as z.core.$ZodTypes)._zod;
    if (below.length === 0 || def.type !== 'object') return [`${propertyKey(key)}?: never;`];
    return [`${propertyKey(key)}?: {`, ...indent(patchMembers(schema as z.core.$ZodObject, below, printer)), '};'];
  });
}

function groupOf(interfaceName: string, group: string, doc: string): string[] {
  const members = rows
    .filter(([name]) => name.startsWith(`${group}.`))
    .flatMap(([name, row]) => [
      ...docComment(
        row.doc,
        '',
        `Return ${returns(row)}`,
        `Veto: ${cancels(row)} On an error or after ${seconds(row.budgetMs)}, ${onFailure(row.onFailure)}.`,
      ),
      `${name.slice(group.length + 1)}?: (ctx: ${typeName(name)}Context) => ${answerOf(name, row)};`,
    ]);
  return interfaceOf([doc], interfaceName, members);
}

function answerOf(name: string, row: HookRow): string {
  if (row.answers.kind === 'replace') return 'Answer<string | void>';
  return row.answers.patchable.length === 0 ? 'Answer<void>' : `Answer<${typeName(name)}Patch | void>`;
}
