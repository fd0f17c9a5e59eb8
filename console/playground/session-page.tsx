/** One session: its transcript, and what can be sent through the plugins. */
import { Button, Card, Group, Skeleton, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useAction } from '../rest/action.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { callSessions, type Message, type Page, type Session } from '../rest/session-api.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { PageFailure } from '../shell/page-failure.tsx';
import { Part } from '../shell/part.tsx';
import { visibleText } from '../style/visible-text.ts';
import { MessageForm } from './message-form.tsx';
import { PromptForm } from './prompt-form.tsx';
import { ToolForm } from './tool-form.tsx';

/** The last messages of a transcript, which is read from its end. */
const SHOWN = 200;

export function SessionPage() {
  const { id } = useParams({ from: '/playground/$id' });
  const path = `/sessions/${encodeURIComponent(id)}`;
  const session = useQuery({ queryKey: ['sessions', id], queryFn: () => callSessions<Session>('GET', path) });
  if (session.error) return <PageFailure error={session.error} reset={() => void session.refetch()} />;
  if (!session.data) return <Skeleton height={240} aria-label="Loading" />;
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={1} className="foreign">
          {visibleText(session.data.agentName)}
        </Title>
        <SessionButtons path={path} />
      </Group>
      <Part title="A message arrives">
        <MessageForm path={path} />
      </Part>
      <Part title="The system prompt">
        <PromptForm path={path} />
      </Part>
      <Part title="Tools">
        <ToolForm path={path} />
      </Part>
      <Part title="Transcript">
        <Transcript id={id} path={path} />
      </Part>
    </Stack>
  );
}

function SessionButtons({ path }: { readonly path: string }) {
  const navigate = useNavigate();
  const clear = useAction<void, unknown>(
    () => callSessions('POST', `${path}/clear`, { reason: 'cleared in the console' }),
    'The session is cleared',
  );
  const remove = useAction<void, unknown>(async () => {
    await callSessions('DELETE', path);
    await navigate({ to: '/playground' });
  }, 'The session is deleted');
  return (
    <Group gap="xs">
      <Button variant="default" loading={clear.isPending} onClick={() => clear.mutate()}>
        Clear
      </Button>
      <ConfirmButton label="Delete" title="Delete the session" onConfirm={() => remove.mutate()}>
        <Text>Its transcript is removed for good, and the plugins are told.</Text>
      </ConfirmButton>
    </Group>
  );
}

function Transcript({ id, path }: { readonly id: string; readonly path: string }) {
  const found = useQuery({
    queryKey: ['sessions', id, 'messages'],
    queryFn: () => callSessions<Page<Message>>('GET', `${path}/messages?limit=${SHOWN}`),
    refetchInterval: FOLLOW_MS,
  });
  if (found.error) return <PageFailure error={found.error} />;
  if (!found.data) return <Skeleton height={60} aria-label="Loading" />;
  if (found.data.items.length === 0) return <Text>Nothing is said yet.</Text>;
  return (
    <Stack gap="xs" component="ol" m={0} p={0} style={{ listStyle: 'none' }}>
      {found.data.items.map(({ id, role, text }) => (
        <Card key={id} component="li" padding="xs" withBorder>
          <Text size="xs" c="dimmed">
            {role}
          </Text>
          <Text size="sm" className="foreign">
            {visibleText(text)}
          </Text>
        </Card>
      ))}
    </Stack>
  );
}
