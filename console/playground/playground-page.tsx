/** Trying plugins: sessions of one's own, in which messages and tools go through them as an agent's would. */
import { Button, Card, Group, Stack, Text, TextInput } from '@mantine/core';
import { IconMessages } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { useAction } from '../rest/action.ts';
import { callSessions, type Page, type Session } from '../rest/session-api.ts';
import { Nothing } from '../shell/nothing.tsx';
import { PageHead } from '../shell/page-head.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { Pages } from '../shell/pages.tsx';
import { visibleText } from '../style/visible-text.ts';

export function PlaygroundPage() {
  return (
    <Stack>
      <PageHead
        title="Playground"
        said="Open a session and see what your plugins make of messages, prompts and tool calls."
      />
      <NewSession />
      <Pages
        of={['sessions']}
        read={(cursor) =>
          callSessions<Page<Session>>('GET', `/sessions${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ''}`)
        }
        none={<Nothing icon={IconMessages}>There is no session yet. Open the first one above.</Nothing>}
      >
        {(items) =>
          items.map(({ id, agentName, agentId }) => (
            <Card key={id} withBorder padding="sm" component="article" className="row-card">
              <Group gap="sm">
                <span className="tile" data-tone="quiet">
                  <IconMessages size={18} stroke={1.7} aria-hidden />
                </span>
                <PageLink
                  to="/playground/$id"
                  params={{ id }}
                  fw={600}
                  c="var(--mantine-color-text)"
                  className="foreign entry-link"
                >
                  {visibleText(agentName)}
                </PageLink>
                <Text size="xs" c="dimmed" ff="monospace" className="foreign">
                  {visibleText(agentId)} · {id}
                </Text>
              </Group>
            </Card>
          ))
        }
      </Pages>
    </Stack>
  );
}

function NewSession() {
  const [agent, setAgent] = useState('tester');
  const navigate = useNavigate();
  const open = useAction<void, void>(async () => {
    const { id } = await callSessions<Session>('POST', '/sessions', { agentId: agent.trim() });
    await navigate({ to: '/playground/$id', params: { id } });
  });
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    open.mutate();
  };
  return (
    <form onSubmit={onSubmit}>
      <Group align="flex-end">
        <TextInput label="Agent" required value={agent} onChange={(event) => setAgent(event.currentTarget.value)} />
        <Button type="submit" loading={open.isPending}>
          Open a session
        </Button>
      </Group>
    </form>
  );
}
