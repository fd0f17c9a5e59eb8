/** `bulkhead delivery`, `replay`, `try-now` and `give-up`: show a delivery, or change when or whether it is delivered. */
import { REPLAY_MAX } from '../../contract/limits.ts';
import { hasCode } from '../../session/transport.ts';
import type { Command, ParsedArgs } from '../command.ts';
import type { Context } from '../context.ts';
import { formatDelivery } from '../delivery-text.ts';
import { CommandError } from '../failure.ts';
import { requireInstallation } from '../lookup.ts';
import type { Rest } from '../rest.ts';
import type { Delivery, DeliveryDetail, Installation } from '../rest-types.ts';
import { toOneLine } from '../terminal-text.ts';

interface Operation {
  /** Of the command, and the last part of the path. */
  readonly name: string;
  readonly summary: string;
  readonly kinds: readonly ('deliveries' | 'events')[];
  /** The text that is printed after success. */
  readonly done: string;
}

const DELIVERY = 'id of the delivery, from `deliveries`, the console or the log';
const SLUG = {
  flags: '--slug <slug>',
  doc: 'slug of the plugin, or id of the installation (default: search all installations)',
};

/** Calls an operation for the delivery or event with the id. */
async function perform(context: Context, args: ParsedArgs, { name, kinds, done }: Operation): Promise<Delivery> {
  const rest = await context.getRest();
  const { found, id, slug } = await searchDelivery(rest, args, kinds, (path) => rest.post<Delivery>(`${path}/${name}`));
  context.output.printLine(`${context.output.paint.green(done)} ${id} for ${slug}`);
  return found;
}

const createCommand = (operation: Operation): Command => ({
  name: operation.name,
  summary: operation.summary,
  args: [{ name: '<delivery>', doc: DELIVERY }],
  options: [SLUG],
  run: (context, args) => perform(context, args, operation),
});

/** Searches the user's installations for the id. @param call of the path of a delivery @throws CommandError if none has it */
async function searchDelivery<Found>(
  rest: Rest,
  args: ParsedArgs,
  kinds: Operation['kinds'],
  call: (path: string) => Promise<Found>,
): Promise<{ readonly found: Found; readonly id: string; readonly slug: string }> {
  const id = args.positional[0] ?? '';
  const slug = args.text('slug');
  const searched =
    slug === undefined ? await rest.getAll<Installation>('/installations') : [await requireInstallation(rest, slug)];
  for (const installation of searched) {
    for (const kind of kinds) {
      const path = `/installations/${installation.id}/${kind}/${encodeURIComponent(id)}`;
      const found = await nullIfMissing(call(path));
      if (found !== null) return { found, id, slug: installation.slug };
    }
  }
  const owner = slug === undefined ? 'No installed plugin' : `“${slug}”`;
  const verb = slug === undefined ? 'has' : 'does not have';
  const what = kinds.includes('events') ? 'a delivery or event' : 'a delivery';
  throw new CommandError('not_found', `${owner} ${verb} ${what} ${id}. Look up its id with bulkhead deliveries.`);
}

const nullIfMissing = <Found>(called: Promise<Found>): Promise<Found | null> =>
  called.catch((error: unknown) => {
    if (hasCode(error, 'not_found')) return null;
    throw error;
  });

export const delivery: Command = {
  name: 'delivery',
  summary: 'Show a webhook request or reply with its headers and body',
  args: [{ name: '<delivery>', doc: DELIVERY }],
  options: [SLUG],
  examples: ['delivery 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11'],
  async run(context, args) {
    const rest = await context.getRest();
    const { found } = await searchDelivery(rest, args, ['deliveries'], (path) => rest.get<DeliveryDetail>(path));
    const { method, query, headers, body, bodyBytes, bodyEncoding, bodyTruncated } = found;
    const { output } = context;
    for (const line of formatDelivery(found)) output.printLine(line);
    output.printLine();
    output.printLine(toOneLine(`${method}${query === '' ? '' : ` ?${query}`}`));
    for (const [name, value] of headers) output.printLine(toOneLine(`${name}: ${value}`));
    const part = bodyTruncated ? ', of which the start is shown' : '';
    output.printLine();
    output.printLine(`${bodyBytes} bytes${bodyEncoding === 'base64' ? ' in base64' : ''}${part}:`);
    output.printLine(body);
    return found;
  },
};

const REPLAY: Operation = {
  name: 'replay',
  summary: 'Deliver a finished webhook request, reply or event again, or all dead ones of a plugin',
  kinds: ['deliveries', 'events'],
  done: 'queued',
};

export const replay: Command = {
  ...createCommand(REPLAY),
  args: [{ name: '[delivery]', doc: DELIVERY }],
  options: [SLUG, { flags: '--dead', doc: 'all dead webhook requests and replies of --slug, oldest first' }],
  examples: ['replay 0199c8f2-7d53-7d1c-9f0e-5b1f5a0e7c11', 'replay --dead --slug inbox'],
  run: (context, args) => {
    const slug = args.text('slug');
    const [id] = args.positional;
    if ((id === undefined) !== args.flag('dead'))
      throw new CommandError('usage', 'Pass either the id of a delivery, or --dead and --slug.');
    if (id !== undefined) return perform(context, args, REPLAY);
    if (slug === undefined) throw new CommandError('usage', 'Name the plugin: bulkhead replay --dead --slug <slug>.');
    return replayDead(context, slug);
  },
};

async function replayDead(context: Context, slugOrId: string): Promise<{ readonly replayed: number }> {
  const rest = await context.getRest();
  const { id, slug } = await requireInstallation(rest, slugOrId);
  const answer = await rest.post<{ replayed: number }>(`/installations/${id}/deliveries/replay`, { state: 'dead' });
  const { output } = context;
  const word = answer.replayed === 1 ? 'delivery' : 'deliveries';
  output.printLine(`${output.paint.green('queued')} ${answer.replayed} dead ${word} of ${slug}`);
  if (answer.replayed === REPLAY_MAX) output.printLine('There may be more: run the command again.');
  return answer;
}

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
