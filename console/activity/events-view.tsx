/** The lifecycle events that were sent to the plugin, dead letters among them. */

import { Badge, Button, NativeSelect, Stack, Table, Text } from '@mantine/core';
import { useState } from 'react';
import { STATE_COLOURS } from '../channels/deliveries-view.tsx';
import { useAction } from '../rest/action.ts';
import { bodyOf, rest } from '../rest/client.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import type { components } from '../rest/schema.d.ts';
import { Moment } from '../shell/moment.tsx';
import { Pages } from '../shell/pages.tsx';
import { Payload } from '../shell/payload.tsx';
import { visibleJson, visibleText } from '../style/visible-text.ts';

type Event = components['schemas']['Event'];
type State = Event['state'];
const PAGE = 50;

export function EventsView({ installationId }: { readonly installationId: string }) {
  const [state, setState] = useState<State | ''>('');
  return (
    <Stack gap="sm">
      <NativeSelect
        label="Events"
        maw={240}
        value={state}
        onChange={(event) => setState(event.currentTarget.value as State | '')}
        data={[{ value: '', label: 'all' }, 'pending', 'delivered', 'skipped', 'dead']}
      />
      <Pages
        of={['events', installationId, state]}
        read={(cursor) => readPage(installationId, state, cursor)}
        every={FOLLOW_MS}
        none="Nothing here. Events are sent to plugins that listen to them."
      >
        {(items) => <EventTable items={items} installationId={installationId} />}
      </Pages>
    </Stack>
  );
}

const readPage = (id: string, state: State | '', cursor: string | undefined) =>
  bodyOf(
    rest.GET('/installations/{id}/events', {
      params: {
        path: { id },
        query: { limit: PAGE, ...(state === '' ? {} : { state }), ...(cursor === undefined ? {} : { cursor }) },
      },
    }),
  );

function EventTable({ items, installationId }: { readonly items: readonly Event[]; readonly installationId: string }) {
  const replay = useAction(
    (eventId: string) =>
      rest.POST('/installations/{id}/events/{eventId}/replay', { params: { path: { id: installationId, eventId } } }),
    'It is sent again',
  );
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table aria-label="Events">
        <Table.Thead>
          <Table.Tr>
            {['At', 'Event', 'State', 'Attempts', 'Data', 'Again'].map((title) => (
              <Table.Th key={title}>{title}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {items.map((event) => (
            <Table.Tr key={event.id}>
              <Table.Td>
                <Moment at={event.occurredAt} />
              </Table.Td>
              <Table.Td>{event.type}</Table.Td>
              <Table.Td>
                <Badge variant="light" color={STATE_COLOURS[event.state]}>
                  {event.state}
                </Badge>
                {event.lastError && event.state !== 'delivered' ? (
                  <Text size="xs" className="foreign">
                    {visibleText(event.lastError)}
                  </Text>
                ) : null}
              </Table.Td>
              <Table.Td>{event.attempts}</Table.Td>
              <Table.Td>
                <Payload>{visibleJson(event.data)}</Payload>
              </Table.Td>
              <Table.Td>
                <Button size="xs" variant="default" onClick={() => replay.mutate(event.id)}>
                  Replay
                </Button>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
