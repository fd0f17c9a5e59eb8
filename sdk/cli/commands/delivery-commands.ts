/** `bulkhead replay`, `try-now` and `give-up`: find a delivery or event by its id, and change when or whether it is delivered. */
import { hasCode } from '../../session/transport.ts';
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import type { Rest } from '../rest.ts';
import type { Delivery, Installation } from '../rest-types.ts';

interface Operation {
  /** Of the command, and the last part of the path. */
  readonly name: string;
  readonly summary: string;
  readonly kinds: readonly ('deliveries' | 'events')[];
  /** The text that is printed after success. */
  readonly done: string;
  readonly examples?: readonly string[];
}

/** Searches the user's installations for the id and calls the operation. @throws CommandError if none has it */
const createCommand = ({ name, summary, kinds, done, examples = [] }: Operation): Command => ({
  name,
  summary,
  args: [{ name: '<delivery>', doc: 'id of the delivery, from `deliveries`, the console or the log' }],
  options: [{ flags: '--slug <slug>', doc: 'slug of the plugin (default: search all installations)' }],
  examples,
  async run(context, args) {
    const rest = await context.getRest();
    const id = args.positional[0] ?? '';
    const slug = args.text('slug');
    const all = await rest.getAll<Installation>('/installations');
    for (const installation of all.filter((candidate) => slug === undefined || candidate.slug === slug)) {
      for (const kind of kinds) {
        const called = await callIfFound(rest, `/installations/${installation.id}/${kind}`, id, name);
        if (!called) continue;
        context.output.printLine(`${context.output.paint.green(done)} ${id} for ${installation.slug}`);
        return called;
      }
    }
    const owner = slug === undefined ? 'No installed plugin' : `“${slug}”`;
    const verb = slug === undefined ? 'has' : 'does not have';
    const what = kinds.includes('events') ? 'a delivery or event' : 'a delivery';
    throw new CommandError('not_found', `${owner} ${verb} ${what} ${id}. Look up its id with bulkhead deliveries.`);
  },
});

const callIfFound = (rest: Rest, path: string, id: string, name: string): Promise<Delivery | null> =>
  rest.post<Delivery>(`${path}/${encodeURIComponent(id)}/${name}`).catch((error: unknown) => {
    if (hasCode(error, 'not_found')) return null;
    throw error;
  });

export const replay = createCommand({
  name: 'replay',
  summary: 'Deliver a finished webhook request, reply or event again',
  kinds: ['deliveries', 'events'],
  done: 'queued',
  examples: ['replay 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11'],
});

export const tryNow = createCommand({
  name: 'try-now',
  summary: 'Attempt a waiting webhook request or reply at once',
  kinds: ['deliveries'],
  done: 'due now',
});

export const giveUp = createCommand({
  name: 'give-up',
  summary: 'Give up a pending webhook request or reply, so that the next one follows',
  kinds: ['deliveries'],
  done: 'given up',
});
