/** What a chain did: each link's time and outcome, a veto, and what was left in the end. */
import { Alert, Badge, Stack, Text } from '@mantine/core';
import { Fragment } from 'react';
import type { HookAnswer, TraceStep } from '../rest/session-api.ts';
import { HeadedTable } from '../shell/headed-table.tsx';
import { Payload } from '../shell/payload.tsx';
import { visibleJson, visibleText } from '../style/visible-text.ts';

const COLOURS: Readonly<Record<string, string>> = { changed: 'teal', unchanged: 'gray', cancelled: 'yellow' };
const TITLES = ['Plugin', 'Outcome', 'Took'];

export function ChainTrace({ answer }: { readonly answer: HookAnswer }) {
  return (
    <Stack gap="sm" role="status">
      {answer.action === 'cancel' ? (
        <Alert color="yellow" title={`${answer.cancelledBy} stopped it`} className="foreign">
          {visibleText(answer.reason ?? '')}
        </Alert>
      ) : null}
      {answer.trace.length === 0 ? (
        <Text size="sm">No running plugin has this hook: it went through unchanged.</Text>
      ) : (
        <HeadedTable label="Links of the chain" titles={TITLES} rows={answer.trace.map(rowOf)} />
      )}
      <Payload>{visibleJson(answer.context)}</Payload>
    </Stack>
  );
}

function rowOf({ installationId, slug, ms, outcome, reason }: TraceStep) {
  const cells = [
    slug,
    <Fragment key="outcome">
      <Badge variant="light" color={COLOURS[outcome] ?? 'red'}>
        {outcome}
      </Badge>
      {reason ? (
        <Text size="xs" className="foreign">
          {visibleText(reason)}
        </Text>
      ) : null}
    </Fragment>,
    `${Math.round(ms * 10) / 10} ms`,
  ];
  return { key: installationId, cells };
}
