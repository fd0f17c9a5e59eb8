/** What a chain did: each link's time and outcome, a veto, and what was left in the end. */

import { Alert, Badge, Stack, Table, Text } from '@mantine/core';
import type { HookAnswer } from '../rest/session-api.ts';
import { Payload } from '../shell/payload.tsx';
import { visibleJson, visibleText } from '../style/visible-text.ts';

const COLOURS: Readonly<Record<string, string>> = { changed: 'teal', unchanged: 'gray', cancelled: 'yellow' };

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
        <Table aria-label="Links of the chain">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Plugin</Table.Th>
              <Table.Th>Outcome</Table.Th>
              <Table.Th>Took</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {answer.trace.map(({ installationId, slug, ms, outcome, reason }) => (
              <Table.Tr key={installationId}>
                <Table.Td>{slug}</Table.Td>
                <Table.Td>
                  <Badge variant="light" color={COLOURS[outcome] ?? 'red'}>
                    {outcome}
                  </Badge>
                  {reason ? (
                    <Text size="xs" className="foreign">
                      {visibleText(reason)}
                    </Text>
                  ) : null}
                </Table.Td>
                <Table.Td>{Math.round(ms * 10) / 10} ms</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      <Payload>{visibleJson(answer.context)}</Payload>
    </Stack>
  );
}
