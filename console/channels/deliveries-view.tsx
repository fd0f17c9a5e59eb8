/** Lists inbound and outbound deliveries, with replay. */
import { Button, Group, NativeSelect, Stack } from '@mantine/core';
import { useState } from 'react';
import { REPLAY_MAX } from '../../sdk/contract/limits.ts';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { FOLLOW_MS, type Installation } from '../rest/installations.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { Timestamp, useTimestampFormat } from '../shell/timestamp.tsx';
import { formatBytes } from '../style/format-bytes.ts';
import { formatNumber } from '../style/format-number.ts';
import { IconRefresh } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { AttemptState } from './attempt-state.tsx';
import { DeliveryDetail } from './delivery-detail.tsx';

type Delivery = components['schemas']['Delivery'];
type State = Delivery['state'];
const PAGE = 50;
const TITLES = ['Received', 'Channel', 'State', 'Attempts', 'Size', 'Payload'];

interface Props {
  readonly installationId: string;
  readonly channels: Installation['channels'];
}

export function DeliveriesView({ installationId, channels }: Props) {
  const [state, setState] = useState<State | ''>('');
  const [channelId, setChannelId] = useState('');
  const [opened, setOpened] = useState<string | null>(null);
  const path = { id: installationId };
  const isAll = channelId === '';
  const ofChannel = isAll ? {} : { channelId };
  // The chosen one may be disconnected meanwhile. It stays chosen: replaying all channels instead would be a surprise.
  const isRemoved = !(isAll || channels.some(({ id }) => id === channelId));
  const channelName = escapeText(findName(channels, channelId));
  const filter = { ...ofChannel, ...(state === '' ? {} : { state }) };
  return (
    <Stack gap="sm">
      <Group align="flex-end" justify="space-between" mt="sm">
        <Group align="flex-end">
          <NativeSelect
            label="Deliveries"
            value={state}
            onChange={(event) => setState(event.currentTarget.value as State | '')}
            data={[{ value: '', label: 'all' }, 'pending', 'delivered', 'dead']}
          />
          {channels.length === 0 && isAll ? null : (
            <NativeSelect
              label="Channel"
              value={channelId}
              onChange={(event) => setChannelId(event.currentTarget.value)}
              data={[
                { value: '', label: 'all' },
                ...channels.map(({ id, name }) => ({ value: id, label: escapeText(name) })),
                ...(isRemoved ? [{ value: channelId, label: channelName }] : []),
              ]}
            />
          )}
        </Group>
        {channels.length === 0 ? null : (
          <ActionButton
            size="sm"
            leftSection={<IconRefresh size={15} stroke={1.8} />}
            disabled={isRemoved}
            run={() =>
              readBody(
                rest.POST('/installations/{id}/deliveries/replay', {
                  params: { path },
                  body: { state: 'dead', ...ofChannel },
                }),
              )
            }
            done={describeReplay}
          >
            {isAll ? 'Replay all dead ones' : `Replay all dead ones of ${channelName}`}
          </ActionButton>
        )}
      </Group>
      <PagedList
        queryKey={['deliveries', installationId, filter]}
        read={(page) =>
          readBody(
            rest.GET('/installations/{id}/deliveries', {
              params: { path, query: { limit: PAGE, ...filter, ...page } },
            }),
          )
        }
        refreshMs={FOLLOW_MS}
        empty={
          state === '' && isAll
            ? 'There are no deliveries. Requests to the webhook address of a channel appear here.'
            : `No delivery ${isAll ? '' : `of ${channelName} `}is ${state || 'kept'}.`
        }
      >
        {(items) => <DeliveryTable items={items} channels={channels} onOpen={setOpened} />}
      </PagedList>
      <Dialog title="Delivery" opened={opened !== null} onClose={() => setOpened(null)}>
        {opened === null ? null : (
          <DeliveryDetail
            key={opened}
            installationId={installationId}
            deliveryId={opened}
            channels={channels}
            onOpen={setOpened}
          />
        )}
      </Dialog>
    </Stack>
  );
}

const findName = (channels: Props['channels'], id: string): string =>
  channels.find((channel) => channel.id === id)?.name ?? 'a removed channel';

function describeReplay({ replayed }: { readonly replayed: number }): string {
  if (replayed === 0) return 'No dead delivery has a connected channel: there is nothing to replay';
  if (replayed === 1) return '1 delivery is queued again';
  const more = replayed < REPLAY_MAX ? '' : '. There may be more: replay them, too';
  return `${formatNumber(replayed)} deliveries are queued again${more}`;
}

interface TableProps {
  readonly items: readonly Delivery[];
  readonly channels: Installation['channels'];
  readonly onOpen: (id: string) => void;
}

function DeliveryTable({ items, channels, onOpen }: TableProps) {
  const formatTimestamp = useTimestampFormat();
  const rows = items.map((delivery) => ({
    key: delivery.id,
    cells: [
      <Timestamp key="received" at={delivery.receivedAt} />,
      `${delivery.direction === 'in' ? 'from' : 'to'} ${escapeText(findName(channels, delivery.channelId))}`,
      <AttemptState key="state" {...delivery} onOpen={onOpen} />,
      delivery.attempts,
      formatBytes(delivery.bodyBytes),
      <Button
        key="open"
        size="xs"
        variant="default"
        aria-label={`Open the delivery of ${formatTimestamp(delivery.receivedAt)}`}
        onClick={() => onOpen(delivery.id)}
      >
        Open
      </Button>,
    ],
  }));
  return <DataTable label="Deliveries" titles={TITLES} rows={rows} numeric={['Attempts', 'Size']} />;
}
