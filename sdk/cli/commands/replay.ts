/** `bulkhead replay`: queues a webhook request, a reply or an event for delivery again. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import type { Installation } from '../rest-types.ts';

interface ReplayResult {
  readonly id: string;
  readonly state?: string;
}

export const replay: Command = {
  name: 'replay',
  summary: 'Deliver a webhook request or an event again',
  args: [{ name: '<delivery>', doc: 'id of the delivery or event, from the console or the log' }],
  options: [{ flags: '--slug <slug>', doc: 'slug of the plugin (default: search all installations)' }],
  examples: ['replay 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11'],
  async run(context, args) {
    const rest = await context.getRest();
    const id = args.positional[0] ?? '';
    const slug = args.text('slug');
    const all = await rest.getAll<Installation>('/installations');
    for (const installation of all.filter((candidate) => slug === undefined || candidate.slug === slug)) {
      for (const kind of ['deliveries', 'events']) {
        const path = `/installations/${installation.id}/${kind}/${encodeURIComponent(id)}/replay`;
        const replayed = await rest.post<ReplayResult>(path).catch((error: { code?: string }) => {
          if (error.code === 'not_found') return null;
          throw error;
        });
        if (!replayed) continue;
        context.output.printLine(`${context.output.paint.green('queued')} ${id} for ${installation.slug}`);
        return replayed;
      }
    }
    const owner = slug === undefined ? 'No installed plugin' : `“${slug}”`;
    const verb = slug === undefined ? 'has' : 'does not have';
    throw new CommandError('not_found', `${owner} ${verb} a delivery or event ${id}. Look up its id in the console.`);
  },
};
