/** Buttons that pause, resume, restart, set up again and uninstall an installation. */
import { Group, List, Text } from '@mantine/core';
import { hasRequiredChecks } from '../../sdk/contract/ending-checks.ts';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { type AgentPage, useAgents } from '../rest/use-agents.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { useLeaving } from '../shell/use-leaving.ts';
import { IconPlayerPause, IconPlayerPlay, IconRefresh, IconTrash } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';

const ICON = { size: 15, stroke: 1.8 } as const;
/** By the action that the condition of an installation names. */
const REMEDIES = {
  restart: {
    path: 'restart',
    label: 'Restart',
    done: 'Its failure count is reset: the next call starts it',
    Icon: IconRefresh,
  },
  retry_update: {
    path: 'retry-update',
    label: 'Try again',
    done: 'The update is tried again, or waits for your consent',
    Icon: IconRefresh,
  },
  resume: { path: 'resume', label: 'Resume', done: 'Resumed', Icon: IconPlayerPlay },
} as const;

export function InstallationActions({ installation }: { readonly installation: Installation }) {
  const startLeaving = useLeaving();
  const { action } = installation.condition;
  const remedy = action === null || action === 'configure' ? null : REMEDIES[action];
  const target = { params: { path: { id: installation.id } } };
  const uninstall = async () => {
    const leaveTo = startLeaving();
    await rest.DELETE('/installations/{id}', target);
    // What is typed in the settings is of no use any more.
    await leaveTo({ to: '/installations', ignoreBlocker: true });
  };
  return (
    <Group gap="xs">
      {remedy === null ? null : (
        <ActionButton
          variant="filled"
          run={() => rest.POST(`/installations/{id}/${remedy.path}`, target)}
          done={remedy.done}
          leftSection={<remedy.Icon {...ICON} />}
        >
          {remedy.label}
        </ActionButton>
      )}
      {action === 'resume' ? null : <PauseButton installation={installation} />}
      <ActionButton
        run={() => rest.POST('/installations/{id}/rerun-setup', target)}
        done="The plugin is notified to set itself up again"
        leftSection={<IconRefresh {...ICON} />}
      >
        Run setup again
      </ActionButton>
      <ConfirmButton
        label="Uninstall"
        title={`Uninstall ${escapeText(installation.displayName)}`}
        run={uninstall}
        done="Uninstalled"
        button={{ leftSection: <IconTrash {...ICON} /> }}
      >
        <Removed installation={installation} />
      </ConfirmButton>
    </Group>
  );
}

/** Asks first if the account requires the plugin: a pause ends its checks. */
function PauseButton({ installation }: { readonly installation: Installation }) {
  const run = () => rest.POST('/installations/{id}/pause', { params: { path: { id: installation.id } } });
  const leftSection = <IconPlayerPause {...ICON} />;
  if (!hasRequiredChecks(installation)) {
    return (
      <ActionButton run={run} done="Paused" leftSection={leftSection}>
        Pause
      </ActionButton>
    );
  }
  return (
    <ConfirmButton label="Pause" run={run} done="Paused" button={{ leftSection }}>
      <Text>
        You require this plugin, but until you resume it, messages and turns continue without its checks. Its webhook
        requests and events wait.
      </Text>
    </ConfirmButton>
  );
}

function Removed({ installation }: { readonly installation: Installation }) {
  const { channels, secretNames } = installation;
  const agents = useAgents();
  return (
    <>
      <Text>The plugin is notified first. Then these are removed permanently:</Text>
      <List>
        <List.Item className="foreign">
          {`its agents${agents === undefined ? '' : nameAgents(agents, installation.id)}, with all their sessions`}
        </List.Item>
        <List.Item className="foreign">
          {channels.length === 0
            ? 'its channels (it has none)'
            : `its channels: ${channels.map(({ name }) => escapeText(name)).join(', ')}, with all their sessions, also those that another agent answers. Their addresses stop working`}
        </List.Item>
        <List.Item>
          its webhook requests and replies that wait: they become dead letters and cannot be replayed
        </List.Item>
        {hasRequiredChecks(installation) ? (
          <List.Item>its checks, which you require: messages and turns continue without them</List.Item>
        ) : null}
        <List.Item>its live connections and its stored data</List.Item>
        <List.Item>
          {secretNames.length === 0 ? 'its secrets (not set)' : `its secrets: ${secretNames.join(', ')}`}
        </List.Item>
      </List>
    </>
  );
}

/** Says which agents are removed with an installation, as far as the page of agents has them. */
function nameAgents({ items, nextCursor }: AgentPage, installationId: string): string {
  const names = items.filter((agent) => agent.installationId === installationId).map(({ name }) => escapeText(name));
  const hasAll = nextCursor === null;
  if (names.length === 0) return hasAll ? ' (it has none)' : '';
  return `${hasAll ? '' : ', among them'}: ${names.join(', ')}`;
}
