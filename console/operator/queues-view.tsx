/** Lists the queues and the dead letters. */
import { Code, Stack } from '@mantine/core';
import type { components } from '../../sdk/rest/schema.d.ts';
import { DataTable } from '../shell/data-table.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { Section } from '../shell/section.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { LimitNote, ROWS_MAX } from './row-limit.tsx';

const QUEUE_TITLES = ['Queue', 'Waiting', 'Oldest', 'Dead letters'];
const DEAD_TITLES = ['Time', 'Plugin', 'Delivery or event', 'Attempts', 'Last error'];

export function QueuesView({ queues, deadLetters }: components['schemas']['Queues']) {
  const waiting = queues.map(({ name, waiting, oldestSeconds, dead }) => ({
    key: name,
    cells: [name, waiting, waiting === 0 ? '–' : `${Math.round(oldestSeconds)} s`, dead ?? '–'],
  }));
  const letters = deadLetters.map(({ id, installationId, slug, what, attempts, at, lastError }) => ({
    key: id,
    cells: [
      <Timestamp key="at" at={at} />,
      slug === null ? (
        'uninstalled'
      ) : (
        <PageLink key="page" to="/installations/$id" params={{ id: installationId }}>
          {slug}
        </PageLink>
      ),
      escapeText(what),
      attempts,
      lastError === null ? '–' : escapeText(lastError),
    ],
  }));
  return (
    <Stack>
      <Section title="Queues">
        <DataTable label="Queues" titles={QUEUE_TITLES} rows={waiting} numeric={QUEUE_TITLES.slice(1)} staysTable />
      </Section>
      <Section title="Dead letters">
        {letters.length === 0 ? (
          <EmptyState>There are no dead letters.</EmptyState>
        ) : (
          <>
            <LimitNote rows={letters}>
              Only the newest {ROWS_MAX} dead letters are listed. The page of an installation lists its own. To list
              all, run <Code>npm run -s operator -- dead-letters --limit 10000</Code>
            </LimitNote>
            <DataTable label="Dead letters" titles={DEAD_TITLES} rows={letters} numeric={['Attempts']} />
          </>
        )}
      </Section>
    </Stack>
  );
}
