/** Lists the agents that plugins created in the account, shows their details, and removes them. */
import { Button, Card, Group, Skeleton, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DescriptionList } from '../shell/description-list.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { IconRobot } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';

type Agent = components['schemas']['Agent'];
const PAGE = 50;

export function AgentsPage() {
  const [opened, setOpened] = useState<string | null>(null);
  return (
    <Stack>
      <PageHeader
        title="Agents"
        subtitle="Agents that plugins created with host.agents. Only the plugin that created an agent can change it."
      />
      <PagedList
        queryKey={['agents']}
        read={(page) => readBody(rest.GET('/agents', { params: { query: { limit: PAGE, ...page } } }))}
        refreshMs={FOLLOW_MS}
        empty={
          <EmptyState icon={IconRobot}>
            No plugin keeps an agent in your account. Agents appear here when a plugin creates them.
          </EmptyState>
        }
      >
        {(items) => items.map((agent) => <AgentCard key={agent.id} agent={agent} onOpen={() => setOpened(agent.id)} />)}
      </PagedList>
      <Dialog title="Agent" opened={opened !== null} onClose={() => setOpened(null)}>
        {opened === null ? null : <AgentDetail id={opened} />}
      </Dialog>
    </Stack>
  );
}

function AgentCard({ agent, onOpen }: { readonly agent: Agent; readonly onOpen: () => void }) {
  return (
    <Card withBorder component="article" className="row-card">
      <Group wrap="nowrap" gap="sm" align="flex-start">
        <span className="tile" data-tone="quiet">
          <IconRobot size={18} stroke={1.7} />
        </span>
        <Stack gap={2} flex={1} miw={0}>
          <Text fw={600} className="foreign">
            {escapeText(agent.name)}
          </Text>
          <Text size="sm" c="dimmed" lineClamp={2} className="foreign">
            {escapeText(agent.instructions) || 'No instructions.'}
          </Text>
          <MadeBy agent={agent} />
        </Stack>
        <Group gap="xs">
          <Button size="xs" variant="default" aria-label={`Open ${escapeText(agent.name)}`} onClick={onOpen}>
            Open
          </Button>
          <RemoveAgent agent={agent} />
        </Group>
      </Group>
    </Card>
  );
}

function MadeBy({ agent: { installationId, slug } }: { readonly agent: Agent }) {
  if (installationId === null) return null;
  return (
    <Text size="xs" c="dimmed">
      created by{' '}
      <PageLink
        to="/installations/$id"
        params={{ id: installationId }}
        size="xs"
        underline="always"
        className="foreign"
      >
        {slug}
      </PageLink>
    </Text>
  );
}

function AgentDetail({ id }: { readonly id: string }) {
  const found = useQuery({
    queryKey: ['agents', id],
    queryFn: () => readBody(rest.GET('/agents/{id}', { params: { path: { id } } })),
  });
  if (found.error) return <ErrorAlert error={found.error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeleton height={160} aria-label="Loading" />;
  const { name, instructions, model, slug, createdAt, updatedAt } = found.data;
  return (
    <Stack>
      <DescriptionList
        rows={[
          ['Name', escapeText(name)],
          ['Created by', slug ?? 'an uninstalled plugin'],
          ['Model', model === null ? 'default' : escapeText(model)],
          ['Created', <Timestamp key="created" at={createdAt} />],
          ['Changed', <Timestamp key="changed" at={updatedAt} />],
        ]}
      />
      <Title order={3} fz="sm">
        Instructions
      </Title>
      <PreformattedText>{escapeText(instructions) || 'none'}</PreformattedText>
    </Stack>
  );
}

function RemoveAgent({ agent: { id, name, slug } }: { readonly agent: Agent }) {
  return (
    <ConfirmButton
      label={`Remove ${escapeText(name)}`}
      short="Remove"
      run={() => rest.DELETE('/agents/{id}', { params: { path: { id } } })}
      done="The agent is removed"
    >
      <Text>
        The agent and all its sessions are removed permanently. {slug ?? 'Its plugin'} may create another one; uninstall
        the plugin to prevent that.
      </Text>
    </ConfirmButton>
  );
}
