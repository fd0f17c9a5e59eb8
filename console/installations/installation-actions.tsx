/** Pause, resume, setup again, and the way out. */
import { Button, Group, List, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useAction } from '../rest/action.ts';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';

export function InstallationActions({ installation }: { readonly installation: Installation }) {
  const navigate = useNavigate();
  const target = { params: { path: { id: installation.id } } };
  const pause = useAction<void, unknown>(() => rest.POST('/installations/{id}/pause', target), 'Paused');
  const resume = useAction<void, unknown>(() => rest.POST('/installations/{id}/resume', target), 'Resumed');
  const rerun = useAction<void, unknown>(
    () => rest.POST('/installations/{id}/rerun-setup', target),
    'The plugin is told to set itself up again',
  );
  const uninstall = useAction<void, unknown>(async () => {
    await rest.DELETE('/installations/{id}', target);
    await navigate({ to: '/installations' });
  }, 'Uninstalled');
  return (
    <Group>
      {installation.status === 'paused' ? (
        <Button loading={resume.isPending} onClick={() => resume.mutate()}>
          Resume
        </Button>
      ) : (
        <Button variant="default" loading={pause.isPending} onClick={() => pause.mutate()}>
          Pause
        </Button>
      )}
      <Button variant="default" loading={rerun.isPending} onClick={() => rerun.mutate()}>
        Run setup again
      </Button>
      <ConfirmButton
        label="Uninstall"
        title={`Uninstall ${installation.displayName}`}
        onConfirm={() => uninstall.mutate()}
        button={{ loading: uninstall.isPending }}
      >
        <Removed installation={installation} />
      </ConfirmButton>
    </Group>
  );
}

function Removed({ installation }: { readonly installation: Installation }) {
  const { channels, secretNames } = installation;
  return (
    <>
      <Text>The plugin is told first. Then these are removed for good:</Text>
      <List>
        <List.Item>the agents it made, with all their chats</List.Item>
        <List.Item>
          {channels.length === 0
            ? 'its channels (it has none)'
            : `its channels: ${channels.map(({ name }) => name).join(', ')}. Their addresses stop working`}
        </List.Item>
        <List.Item>its live connections, and what it stored</List.Item>
        <List.Item>
          {secretNames.length === 0 ? 'its secrets (none is set)' : `its secrets: ${secretNames.join(', ')}`}
        </List.Item>
      </List>
    </>
  );
}
