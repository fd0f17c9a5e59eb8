/** What waits and for how long, and what used up its attempts. */
import { Stack } from '@mantine/core';
import type { components } from '../rest/schema.d.ts';
import { HeadedTable } from '../shell/headed-table.tsx';
import { Moment } from '../shell/moment.tsx';
import { Nothing } from '../shell/nothing.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { Part } from '../shell/part.tsx';
import { visibleText } from '../style/visible-text.ts';

const QUEUE_TITLES = ['Queue', 'Waiting', 'Oldest', 'Dead'];
const DEAD_TITLES = ['At', 'Plugin', 'What', 'Attempts', 'Why'];

export function QueuesView({ queues, deadLetters }: components['schemas']['Queues']) {
  const waiting = queues.map(({ name, waiting, oldestSeconds, dead }) => ({
    key: name,
    cells: [name, waiting, waiting === 0 ? '–' : `${Math.round(oldestSeconds)} s`, dead ?? '–'],
  }));
  const letters = deadLetters.map(({ id, installationId, slug, what, attempts, at, lastError }) => ({
    key: id,
    cells: [
      <Moment key="at" at={at} />,
      slug === null ? (
        'uninstalled'
      ) : (
        <PageLink key="page" to="/installations/$id" params={{ id: installationId }}>
          {slug}
        </PageLink>
      ),
      visibleText(what),
      attempts,
      lastError === null ? '–' : visibleText(lastError),
    ],
  }));
  return (
    <Stack>
      <Part title="Queues">
        <HeadedTable label="Queues" titles={QUEUE_TITLES} rows={waiting} numeric={QUEUE_TITLES.slice(1)} staysTable />
      </Part>
      <Part title="Dead letters">
        {letters.length === 0 ? (
          <Nothing>There are no dead letters.</Nothing>
        ) : (
          <HeadedTable label="Dead letters" titles={DEAD_TITLES} rows={letters} numeric={['Attempts']} />
        )}
      </Part>
    </Stack>
  );
}
