/** `bulkhead channels`: the channels of an installation, with the addresses for their vendors. */
import { getOwn } from '../../contract/get-own.ts';
import type { Command, ParsedArgs } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import { requireByIdOrName, requireInstallation } from '../lookup.ts';
import type { Rest } from '../rest.ts';
import type { Agent, Channel, Installation } from '../rest-types.ts';
import { askToConfirm } from '../terminal-prompts.ts';
import { toOneLine } from '../terminal-text.ts';

export const channels: Command = {
  name: 'channels',
  summary: 'List, connect and disconnect the channels of a plugin, and replace their addresses',
  args: [
    { name: '<plugin>', doc: 'slug of the plugin, or id of the installation' },
    { name: '[action]', doc: 'list (default), connect, replace-address or disconnect' },
    { name: '[channel]', doc: 'name of the new channel, or name or id of a connected one' },
  ],
  options: [
    { flags: '--agent <id>', doc: 'of a new channel: the agent that answers (default: one for this channel)' },
    { flags: '-y, --yes', doc: 'replace an address or disconnect without asking; needed without a terminal' },
  ],
  examples: [
    'channels inbox',
    'channels inbox connect Support',
    'channels inbox connect Support --agent a1',
    'channels inbox disconnect Support',
  ],
  async run(context, args) {
    const [plugin = '', action = 'list', name] = args.positional;
    if (action !== 'connect' && args.text('agent') !== undefined)
      throw new CommandError('usage', '`--agent` chooses the agent of a new channel: pass it with `connect` only.');
    if (action === 'list' && name !== undefined)
      throw new CommandError('usage', `\`list\` takes no channel: it shows all. Run bulkhead channels ${plugin} list.`);
    const rest = await context.getRest();
    const installation = await requireInstallation(rest, plugin);
    if (action === 'list') return listChannels(context, installation);
    const perform = getOwn(actions, action);
    if (!perform) {
      const known = ['list', ...Object.keys(actions)].join(', ');
      throw new CommandError('usage', `“${toOneLine(action)}” is not an action. Known: ${known}.`);
    }
    if (name === undefined)
      throw new CommandError('usage', `Name the channel: bulkhead channels ${plugin} ${action} <channel>.`);
    return perform({ context, args, rest, installation, name });
  },
};

interface Action {
  readonly context: Context;
  readonly args: ParsedArgs;
  readonly rest: Rest;
  readonly installation: Installation;
  readonly name: string;
}

const actions: Readonly<Record<string, (action: Action) => Promise<unknown>>> = {
  async connect({ context, args, rest, installation: { id }, name }) {
    const agentId = args.text('agent');
    const agent = agentId === undefined ? undefined : await findAgent(rest, agentId);
    const given = { ...(agentId === undefined ? {} : { agentId }), ...(agent ? { agentName: agent.name } : {}) };
    const channel = await rest.post<Channel>(`/installations/${id}/channels`, { name, ...given });
    context.output.printLine(`${context.output.paint.green('connected')} ${toOneLine(channel.name)}`);
    return printAddress(context, channel);
  },
  async 'replace-address'({ context, args, rest, installation, name }) {
    const { id, name: shown } = requireChannel(installation, name);
    const question = `Replace the address of ${shown}? The old one stops working at once.`;
    await askToConfirm(context, args, question, 'The address was not replaced.');
    const path = `/installations/${installation.id}/channels/${id}/replace-address`;
    return printAddress(context, await rest.post<Channel>(path));
  },
  async disconnect({ context, args, rest, installation, name }) {
    const { id, name: shown } = requireChannel(installation, name);
    const { output } = context;
    output.printLine(`The address of ${toOneLine(shown)} stops working at once. These are removed permanently:`);
    output.printLine('  the channel with all its sessions, also those that another agent answers');
    output.printLine('  its deliveries that wait: they become dead letters and cannot be replayed');
    await askToConfirm(context, args, `Disconnect ${shown}?`, 'The channel was not disconnected.');
    await rest.delete(`/installations/${installation.id}/channels/${id}`);
    output.printLine(`${output.paint.green('disconnected')} ${toOneLine(shown)}`);
    return { disconnected: id };
  },
};

function listChannels({ output }: Context, { slug, channels: connected }: Installation): readonly Channel[] {
  for (const { id, name, webhookUrl, agentId = id } of connected) {
    const agent = agentId === id ? '' : `  agent ${toOneLine(agentId)}`;
    output.printLine(`${id}  ${toOneLine(name)}  ${webhookUrl}${agent}`);
  }
  if (connected.length === 0) output.printLine(`none. To connect one: bulkhead channels ${slug} connect <name>`);
  return connected;
}

function printAddress({ output }: Context, channel: Channel): Channel {
  output.printLine(`Give this address to the vendor: ${channel.webhookUrl}`);
  return channel;
}

const findAgent = async (rest: Rest, wanted: string): Promise<Agent | undefined> =>
  (await rest.getAll<Agent>('/agents')).find(({ id }) => id === wanted);

const requireChannel = ({ slug, channels: connected }: Installation, wanted: string): Channel =>
  requireByIdOrName(connected, wanted, {
    missing: `${slug} has no channel with this id or name`,
    ambiguous: `${slug} has several channels of this name; pass an id`,
    list: `bulkhead channels ${slug}`,
  });
