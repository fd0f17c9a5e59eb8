/** Lists the lifecycle events of an installation, dead letters included. */
import { NativeSelect, Stack } from '@mantine/core';
import { useState } from 'react';
import type { components } from '../../sdk/rest/schema.d.ts';
import { AttemptState } from '../channels/attempt-state.tsx';
import { readBody, rest } from '../rest/client.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { Timestamp, useTimestampFormat } from '../shell/timestamp.tsx';
import { escapeText } from '../style/untrusted-text.ts';

type Event = components['schemas']['Event'];
type State = Event['state'];
const PAGE = 50;
const TITLES = ['Time', 'Event', 'State', 'Attempts', 'Data', 'Actions'];

export function EventsView({ installationId }: { readonly installationId: string }) {
  const [state, setState] = useState<State | ''>('');
  const path = { id: installationId };
  const filter = state === '' ? {} : { state };
  return (
    <Stack gap="sm">
      <NativeSelect
        label="Events"
        maw={240}
        value={state}
        onChange={(event) => setState(event.currentTarget.value as State | '')}
        data={[{ value: '', label: 'all' }, 'pending', 'delivered', 'skipped', 'dead']}
      />
      <PagedList
        queryKey={['events', installationId, state]}
        read={(page) =>
          readBody(
            rest.GET('/installations/{id}/events', { params: { path, query: { limit: PAGE, ...filter, ...page } } }),
          )
        }
        refreshMs={FOLLOW_MS}
        nouns={['event', 'events']}
        empty={
          state === ''
            ? 'There are no events. Plugins receive the events for which they register a handler.'
            : `No event is ${state}.`
        }
      >
        {(items) => <EventTable items={items} installationId={installationId} />}
      </PagedList>
    </Stack>
  );
}

function EventTable({ items, installationId }: { readonly items: readonly Event[]; readonly installationId: string }) {
  const formatTimestamp = useTimestampFormat();
  const replay = (eventId: string) =>
    rest.POST('/installations/{id}/events/{eventId}/replay', { params: { path: { id: installationId, eventId } } });
  const rows = items.map((event) => ({
    key: event.id,
    cells: [
      <Timestamp key="at" at={event.occurredAt} />,
      <Monospace key="type">{event.type}</Monospace>,
      <AttemptState key="state" {...event} />,
      event.attempts,
      <Monospace key="data">{escapeText(JSON.stringify(event.data))}</Monospace>,
      event.state === 'pending' ? (
        '–'
      ) : (
        <ActionButton
          key="replay"
          aria-label={`Replay ${event.type} of ${formatTimestamp(event.occurredAt)}`}
          run={() => replay(event.id)}
          done="The event is queued for delivery"
        >
          Replay
        </ActionButton>
      ),
    ],
  }));
  return <DataTable label="Events" titles={TITLES} rows={rows} numeric={['Attempts']} />;
}
