/** The list of installations. Dragging a card or pressing its buttons changes the order of the hooks. */
import { ActionIcon, Box, Card, Group, Stack, Text } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { useAction } from '../rest/use-action.ts';
import { PageLink } from '../shell/page-link.tsx';
import { PluginIcon } from '../shell/plugin-icon.tsx';
import { IconArrowDown, IconArrowUp, IconGripVertical } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { useDeclinedUpdate } from './declined-updates.ts';
import { StatusBadge } from './status-badge.tsx';
import { describeReason } from './update-consent.tsx';

export function HookOrder({ installations }: { readonly installations: readonly Installation[] }) {
  const [dragged, setDragged] = useState<number | null>(null);
  const sorted = installations.toSorted((a, b) => a.hookOrder - b.hookOrder || a.id.localeCompare(b.id));
  const { mutate: move } = useAction(({ from, to }: Move) => reorder(sorted, from, to), 'The order is changed');
  return (
    <Stack component="ol" gap="xs" m={0} p={0} style={{ listStyle: 'none' }}>
      {sorted.map((installation, at) => (
        <li
          key={installation.id}
          className="drop-place"
          data-dragged={dragged === at || undefined}
          draggable={sorted.length > 1}
          onDragStart={() => setDragged(at)}
          onDragEnd={() => setDragged(null)}
          onDragOver={(event) => event.preventDefault()}
          onDrop={() => {
            if (dragged !== null && dragged !== at) move({ from: dragged, to: at });
          }}
        >
          <InstallationCard installation={installation}>
            <MoveButton
              way="up"
              name={escapeText(installation.displayName)}
              disabled={at === 0}
              onClick={() => move({ from: at, to: at - 1 })}
            />
            <MoveButton
              way="down"
              name={escapeText(installation.displayName)}
              disabled={at === sorted.length - 1}
              onClick={() => move({ from: at, to: at + 1 })}
            />
          </InstallationCard>
        </li>
      ))}
    </Stack>
  );
}

interface Move {
  readonly from: number;
  readonly to: number;
}

async function reorder(sorted: readonly Installation[], from: number, to: number): Promise<void> {
  const moved = sorted[from];
  if (!moved) return;
  const next = sorted.toSpliced(from, 1).toSpliced(to, 0, moved);
  for (const [at, { id, hookOrder }] of next.entries()) {
    if (hookOrder === at + 1) continue;
    await rest.PATCH('/installations/{id}', { params: { path: { id } }, body: { hookOrder: at + 1 } });
  }
}

function InstallationCard({ installation, children }: { installation: Installation; children: ReactNode }) {
  const { id, slug, displayName, condition, currentSemVer, required, runtime, pendingUpdate } = installation;
  const { declined } = useDeclinedUpdate(id);
  return (
    <Card withBorder padding="sm" className="row-card">
      <Group wrap="nowrap" gap="sm">
        <Box visibleFrom="sm" lh={0} className="grip">
          <IconGripVertical size={17} stroke={1.6} />
        </Box>
        <PluginIcon slug={slug} name={displayName} />
        <Stack gap={2} flex={1} miw={0}>
          <Group gap="sm">
            <PageLink to="/installations/$id" params={{ id }} className="foreign entry-link">
              {escapeText(displayName)}
            </PageLink>
            <StatusBadge condition={condition} />
          </Group>
          <Text size="sm" c="dimmed">
            {currentSemVer ?? 'draft'} · {runtime.state}
            {required ? ' · required' : ''}
            {pendingUpdate && declined !== pendingUpdate.versionId
              ? ` · ${pendingUpdate.semVer ?? 'a draft'} ${describeReason(pendingUpdate)}`
              : ''}
          </Text>
          {condition.cause === null ? null : (
            <Text size="sm" c="dimmed" className="foreign">
              {escapeText(condition.cause)}
            </Text>
          )}
        </Stack>
        <Group gap={4} wrap="nowrap">
          {children}
        </Group>
      </Group>
    </Card>
  );
}

interface MoveProps {
  readonly way: 'up' | 'down';
  readonly name: string;
  readonly disabled: boolean;
  readonly onClick: () => void;
}

function MoveButton({ way, name, disabled, onClick }: MoveProps) {
  const Icon = way === 'up' ? IconArrowUp : IconArrowDown;
  return (
    <ActionIcon
      variant="default"
      size="lg"
      aria-label={`Run ${name} ${way === 'up' ? 'earlier' : 'later'}`}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon size={18} />
    </ActionIcon>
  );
}
