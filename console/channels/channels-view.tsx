/** Shows the channels of an installation and their deliveries. */
import { Button, Card, Group, Stack, Text, TextInput } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { useId } from 'react';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { useAction } from '../rest/use-action.ts';
import { useAgents } from '../rest/use-agents.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { TextField } from '../shell/form-fields.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { bindField, useFields } from '../shell/use-fields.ts';
import { IconWebhook } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { DeliveriesView } from './deliveries-view.tsx';

/** How long the button says that the address is copied, milliseconds. */
const COPIED_MS = 1_000;

type Channel = Installation['channels'][number];
interface OfChannel {
  readonly installationId: string;
  readonly channel: Channel;
}

export function ChannelsView({ installation }: { readonly installation: Installation }) {
  const { id, own, channels, grantedCapabilities } = installation;
  const receives = grantedCapabilities.some((capability) => capability.startsWith('channel'));
  if (!receives && channels.length === 0)
    return <EmptyState icon={IconWebhook}>This plugin has no channel and receives no webhooks.</EmptyState>;
  return (
    <Stack>
      {own ? <Connect installationId={id} /> : null}
      {channels.length === 0 ? (
        <EmptyState icon={IconWebhook}>No channel is connected. Connect one to get its webhook address.</EmptyState>
      ) : null}
      {channels.map((channel) => (
        <ChannelCard key={channel.id} installationId={id} channel={channel} />
      ))}
      <DeliveriesView installationId={id} channels={channels} />
    </Stack>
  );
}

function Connect({ installationId }: { readonly installationId: string }) {
  const fields = useFields({ name: '', agentId: '' });
  const name = fields.values.name.trim();
  const agentId = fields.values.agentId.trim();
  const suggestions = useId();
  const agents = useAgents()?.items ?? [];
  const agent = agents.find(({ id }) => id === agentId);
  const connect = useAction<void, void>(async () => {
    const body = { name, ...(agentId === '' ? {} : { agentId }), ...(agent ? { agentName: agent.name } : {}) };
    await rest.POST('/installations/{id}/channels', { params: { path: { id: installationId } }, body });
    fields.reset();
  }, 'The channel is connected');
  return (
    <ActionForm action={connect} onSubmit={() => connect.mutate()}>
      <Group align="flex-end">
        <TextField label="New channel" placeholder="Support inbox" {...bindField(fields, 'name')} />
        <TextField
          label="Agent"
          description={agent ? escapeText(agent.name) : 'Id of the agent that answers. Default: one for this channel.'}
          {...bindField(fields, 'agentId')}
          list={suggestions}
        />
        <datalist id={suggestions}>
          {agents.map(({ id, name }) => (
            <option key={id} value={id} label={escapeText(name)} />
          ))}
        </datalist>
        <Button type="submit" variant="default" disabled={name === ''} loading={connect.isPending}>
          Connect
        </Button>
      </Group>
    </ActionForm>
  );
}

function ChannelCard({ installationId, channel }: OfChannel) {
  return (
    <Card withBorder className="part">
      <Stack gap="xs">
        <Group justify="space-between">
          <Text fw={650} className="foreign">
            {escapeText(channel.name)}
          </Text>
          <Text size="sm" c="dimmed">
            {channel.agentId === channel.id ? null : <>answered by {escapeText(channel.agentId)}, </>}
            connected <Timestamp at={channel.connectedAt} />
          </Text>
        </Group>
        <TextInput
          label="Webhook address for the vendor"
          readOnly
          value={channel.webhookUrl}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: '0.75rem' } }}
        />
        <ChannelButtons installationId={installationId} channel={channel} />
      </Stack>
    </Card>
  );
}

function ChannelButtons({ installationId, channel }: OfChannel) {
  const { copied, copy, error } = useClipboard({ timeout: COPIED_MS });
  const name = escapeText(channel.name);
  const target = { params: { path: { id: installationId, channelId: channel.id } } };
  return (
    <Group gap="xs">
      <Button
        variant="default"
        size="xs"
        aria-label={`${copied ? 'Copied' : 'Copy'} address of ${name}`}
        onClick={() => copy(channel.webhookUrl)}
      >
        {copied ? 'Copied address' : 'Copy address'}
      </Button>
      <ConfirmButton
        label={`Replace address of ${name}`}
        short="Replace address"
        run={() => rest.POST('/installations/{id}/channels/{channelId}/replace-address', target)}
        done="The channel has a new address"
      >
        <Text>The old address stops working immediately. Enter the new one at the vendor.</Text>
      </ConfirmButton>
      <ConfirmButton
        label={`Disconnect ${name}`}
        short="Disconnect"
        run={() => rest.DELETE('/installations/{id}/channels/{channelId}', target)}
        done="The channel is removed"
      >
        <Text>
          The address stops working immediately. The channel and all its sessions with their transcripts are removed
          permanently, also those that another agent answers. Deliveries that wait become dead letters, which cannot be
          replayed. The service removes them when it has kept them as long as any other finished delivery.
        </Text>
      </ConfirmButton>
      {error ? (
        <Text size="sm" role="alert">
          The browser does not allow this page to copy. Select the address and copy it.
        </Text>
      ) : null}
    </Group>
  );
}
