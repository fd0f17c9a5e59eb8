/** Lists sessions for trying plugins, with a form to open one. */
import { Button, Card, Group, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import type { Page, SessionRecord } from '../../sdk/session/api-types.ts';
import { callSessions } from '../rest/session-api.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { TextField } from '../shell/form-fields.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { useLeaving } from '../shell/use-leaving.ts';
import { IconMessages } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';

export function PlaygroundPage() {
  return (
    <Stack>
      <PageHeader
        title="Playground"
        subtitle="Open a session to send messages, prompts and tool calls through your plugins."
      />
      <NewSession />
      <PagedList
        queryKey={['sessions']}
        read={(page) => callSessions<Page<SessionRecord>>('GET', `/sessions?${new URLSearchParams(page)}`)}
        empty={<EmptyState icon={IconMessages}>There is no session yet. Open the first one above.</EmptyState>}
      >
        {(items) =>
          items.map(({ id, agentName, key, createdAt }) => (
            <Card key={id} withBorder padding="sm" component="article" className="row-card">
              <Group gap="sm">
                <span className="tile" data-tone="quiet">
                  <IconMessages size={18} stroke={1.7} />
                </span>
                <PageLink to="/playground/$id" params={{ id }} className="foreign entry-link">
                  {escapeText(agentName)}
                </PageLink>
                <Text size="sm" c="dimmed" className="foreign">
                  {key === null ? '' : `${escapeText(key)} · `}opened <Timestamp at={createdAt} />
                </Text>
              </Group>
            </Card>
          ))
        }
      </PagedList>
    </Stack>
  );
}

function NewSession() {
  const [agent, setAgent] = useState('tester');
  const startLeaving = useLeaving();
  const open = useAction<void, void>(async () => {
    const leaveTo = startLeaving();
    const { id } = await callSessions<SessionRecord>('POST', '/sessions', { agentId: agent.trim() });
    await leaveTo({ to: '/playground/$id', params: { id } });
  });
  return (
    <ActionForm action={open} onSubmit={() => open.mutate()}>
      <Group align="flex-end">
        <TextField
          label="Agent"
          name="agentId"
          required
          value={agent}
          onChange={(event) => setAgent(event.currentTarget.value)}
        />
        <Button type="submit" loading={open.isPending}>
          Open a session
        </Button>
      </Group>
    </ActionForm>
  );
}
