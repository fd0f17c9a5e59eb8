/** Finds a delivery or event by its id, and replays it, tries it now or gives it up. */
import type { ParsedArgs } from './command.ts';
import type { Context } from './context.ts';
import { CommandError } from './failure.ts';
import type { Rest } from './rest.ts';
import type { Delivery, Installation } from './rest-types.ts';

interface Operation {
  /** The last part of the path. */
  readonly name: 'replay' | 'try-now' | 'give-up';
  readonly kinds: readonly ('deliveries' | 'events')[];
  /** What is printed after success. */
  readonly done: string;
}

/** The arguments of a command that calls an operation of a delivery. */
export const deliveryArguments = {
  args: [{ name: '<delivery>', doc: 'id of the delivery, from `deliveries`, the console or the log' }],
  options: [{ flags: '--slug <slug>', doc: 'slug of the plugin (default: search all installations)' }],
};

/** Searches the user's installations for the id and calls the operation. @throws CommandError if none has it */
export async function callDelivery(context: Context, args: ParsedArgs, operation: Operation): Promise<Delivery> {
  const rest = await context.getRest();
  const id = args.positional[0] ?? '';
  const slug = args.text('slug');
  const all = await rest.getAll<Installation>('/installations');
  for (const installation of all.filter((candidate) => slug === undefined || candidate.slug === slug)) {
    for (const kind of operation.kinds) {
      const called = await callIfFound(rest, `/installations/${installation.id}/${kind}`, id, operation.name);
      if (!called) continue;
      context.output.printLine(`${context.output.paint.green(operation.done)} ${id} for ${installation.slug}`);
      return called;
    }
  }
  const owner = slug === undefined ? 'No installed plugin' : `“${slug}”`;
  const verb = slug === undefined ? 'has' : 'does not have';
  const what = operation.kinds.includes('events') ? 'a delivery or event' : 'a delivery';
  throw new CommandError('not_found', `${owner} ${verb} ${what} ${id}. Look up its id with bulkhead deliveries.`);
}

const callIfFound = (rest: Rest, path: string, id: string, name: string): Promise<Delivery | null> =>
  rest.post<Delivery>(`${path}/${encodeURIComponent(id)}/${name}`).catch((error: { code?: string }) => {
    if (error.code === 'not_found') return null;
    throw error;
  });
