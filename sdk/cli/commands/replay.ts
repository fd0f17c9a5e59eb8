/** `bulkhead replay`: delivers a webhook request, a reply or an event again. */
import type { Command } from '../command.ts';
import { CommandError } from '../failure.ts';
import type { Installation } from '../records.ts';

interface Replayed {
  readonly id: string;
  readonly state?: string;
}

export const replay: Command = {
  name: 'replay',
  summary: 'Deliver a webhook request or an event again',
  args: [{ name: '<delivery>', doc: 'its id, as the console and the logs show it' }],
  options: [{ flags: '--slug <slug>', doc: 'the plugin it came to; else every installed one is asked' }],
  examples: ['replay 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11'],
  async run(context, given) {
    const rest = await context.rest();
    const id = given.args[0] ?? '';
    const slug = given.text('slug');
    const installed = await rest.all<Installation>('/installations');
    for (const installation of installed.filter((one) => slug === undefined || one.slug === slug)) {
      for (const kind of ['deliveries', 'events']) {
        const path = `/installations/${installation.id}/${kind}/${encodeURIComponent(id)}/replay`;
        const replayed = await rest.post<Replayed>(path).catch((error: { code?: string }) => {
          if (error.code === 'not_found') return null;
          throw error;
        });
        if (!replayed) continue;
        context.output.say(`${context.output.paint.green('queued')} ${id} for ${installation.slug} again`);
        return replayed;
      }
    }
    const where = slug === undefined ? 'Nothing installed' : `“${slug}”`;
    throw new CommandError('not_found', `${where} has a delivery or an event ${id}: look for its id in the console.`);
  },
};
