/** The list of installations. Dragging a card or pressing its buttons changes the order of the hooks. */
import { ActionIcon, Badge, Box, Card, Group, Stack, Text, VisuallyHidden } from '@mantine/core';
import { useWindowEvent } from '@mantine/hooks';
import { type MouseEvent, type ReactNode, useRef, useState } from 'react';
import { rest } from '../rest/client.ts';
import { type Installation, readInstallations } from '../rest/installations.ts';
import { useAction } from '../rest/use-action.ts';
import { PageLink } from '../shell/page-link.tsx';
import { PluginIcon } from '../shell/plugin-icon.tsx';
import { IconArrowDown, IconArrowUp, IconGripVertical } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { useDeclinedUpdate } from './declined-updates.ts';
import { planHookNumbers } from './hook-numbers.ts';
import { describeProcess, isStopping, StatusBadge } from './status-badge.tsx';
import { describeReason } from './update-consent.tsx';

export function HookOrder({ installations }: { readonly installations: readonly Installation[] }) {
  /** An id: the places may change during a drag. */
  const [dragged, setDragged] = useState<string | null>(null);
  const { sorted, move, announcement } = useHookOrder(installations);
  const press = usePresses(({ installationId, step }) => {
    const from = sorted.findIndex(({ id }) => id === installationId);
    const hasPlace = from >= 0 && sorted[from + step] !== undefined;
    if (hasPlace) move(from, from + step);
    return hasPlace;
  });
  return (
    <>
      <VisuallyHidden role="status">{announcement}</VisuallyHidden>
      <Stack component="ol" gap="xs" m={0} p={0} style={{ listStyle: 'none' }}>
        {sorted.map((installation, at) => (
          <li
            key={installation.id}
            className="drop-place"
            data-dragged={dragged === installation.id || undefined}
            draggable={sorted.length > 1}
            onDragStart={() => setDragged(installation.id)}
            onDragEnd={() => setDragged(null)}
            onDragOver={(event) => event.preventDefault()}
            onDrop={() => {
              const from = sorted.findIndex(({ id }) => id === dragged);
              if (from >= 0 && from !== at) move(from, at);
            }}
          >
            <InstallationCard installation={installation}>
              <MoveButton
                way="up"
                name={escapeText(installation.displayName)}
                disabled={at === 0}
                onClick={(event) => press(event, { installationId: installation.id, step: -1 })}
              />
              <MoveButton
                way="down"
                name={escapeText(installation.displayName)}
                disabled={at === sorted.length - 1}
                onClick={(event) => press(event, { installationId: installation.id, step: 1 })}
              />
            </InstallationCard>
          </li>
        ))}
      </Stack>
    </>
  );
}

interface Step {
  readonly installationId: string;
  readonly step: -1 | 1;
}
type Press = MouseEvent<HTMLButtonElement>;
interface Move {
  readonly step: Step;
  readonly button: HTMLButtonElement;
  readonly place: string;
}

/**
 * The button moves with its plugin. Another click at the same place moves it on: its user does not mean the plugin that is under
 * the pointer by then.
 *
 * @param move returns whether there was a further place
 */
function usePresses(move: (step: Step) => boolean) {
  const last = useRef<Move | null>(null);
  /** Whether the user has moved the pointer or scrolled since, and so chose what is under the pointer. */
  const hasAimed = useRef(false);
  const recordAim = () => {
    hasAimed.current = true;
  };
  useWindowEvent('pointermove', recordAim);
  // Not `scroll`: a move scrolls, too.
  useWindowEvent('wheel', recordAim);
  return ({ currentTarget, clientX, clientY, detail }: Press, step: Step) => {
    const place = `${clientX} ${clientY}`;
    // 0: by keyboard.
    const isDouble = detail > 1;
    const isSamePlace = last.current?.place === place && !hasAimed.current;
    const moved = detail > 0 && (isDouble || isSamePlace) ? last.current : null;
    // The rest of a double click is for no other plugin, also if this one can move no further.
    const isMovedOn = moved !== null && (move(moved.step) || isDouble);
    if (!isMovedOn) move(step);
    const { step: made, button } = isMovedOn ? moved : { step, button: currentTarget };
    last.current = { step: made, button, place };
    hasAimed.current = false;
    // On a long list it moves out of sight.
    requestAnimationFrame(() => button.scrollIntoView({ block: 'nearest' }));
  };
}

/** A move shows at once. Saves run one after another, and only the newest order is saved. */
function useHookOrder(installations: readonly Installation[]) {
  /** Ids in the order that is not saved yet. */
  const [wanted, setWanted] = useState<readonly string[] | null>(null);
  const [announcement, setAnnouncement] = useState('');
  const newest = useRef<readonly string[]>([]);
  const saved = useRef<Promise<void>>(Promise.resolve());
  const { mutate: save } = useAction(async (ids: readonly string[]) => {
    const before = saved.current;
    saved.current = before.catch(() => undefined).then(() => (ids === newest.current ? saveOrder(ids) : undefined));
    await saved.current;
  });
  const place = ({ id, hookOrder }: Installation) => (wanted === null ? hookOrder : wanted.indexOf(id));
  const sorted = installations.toSorted((a, b) => place(a) - place(b) || a.id.localeCompare(b.id));
  const move = (from: number, to: number) => {
    const moved = sorted[from];
    if (!moved) return;
    const ids = sorted.map(({ id }) => id);
    newest.current = ids.toSpliced(from, 1).toSpliced(to, 0, moved.id);
    setWanted(newest.current);
    const name = escapeText(moved.displayName);
    setAnnouncement(`${name} is ${to + 1} of ${sorted.length}`);
    // Of several moves, only the last one calls them.
    save(newest.current, {
      onError: () => setAnnouncement(`The new order is not saved: ${name} is where it was before`),
      onSettled: () => setWanted(null),
    });
  };
  return { sorted, move, announcement };
}

/** Saves an order. An installation that is missing in it was made elsewhere meanwhile, with the last number. */
async function saveOrder(ids: readonly string[]): Promise<void> {
  const place = ({ id }: Installation) => (ids.includes(id) ? ids.indexOf(id) : ids.length);
  const wanted = (await readInstallations()).toSorted((a, b) => place(a) - place(b) || a.hookOrder - b.hookOrder);
  for (const { id, hookOrder } of planHookNumbers(wanted))
    await rest.PATCH('/installations/{id}', { params: { path: { id } }, body: { hookOrder } });
}

function InstallationCard({ installation, children }: { installation: Installation; children: ReactNode }) {
  const { id, slug, displayName, condition, currentSemVer, required, pendingUpdate } = installation;
  const { declined } = useDeclinedUpdate(id);
  const facts = [
    currentSemVer ?? 'draft',
    describeProcess(installation),
    ...(pendingUpdate && declined !== pendingUpdate.versionId
      ? [`${pendingUpdate.semVer ?? 'a draft'} ${describeReason(pendingUpdate, installation)}`]
      : []),
  ];
  return (
    <Card withBorder padding="sm" className="row-card">
      {/* The buttons wrap below a name that has no room beside them, as on a phone with large text. */}
      <Group gap="sm">
        <Group wrap="nowrap" gap="sm" flex="1 1 10rem" miw={0}>
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
              {required ? (
                <Badge variant="light" size="sm">
                  required
                </Badge>
              ) : null}
            </Group>
            <Text size="sm" c="dimmed">
              {facts.join(' · ')}
            </Text>
            {isStopping(installation) ? (
              <Text size="sm" c="var(--bad-text)">
                Until it runs, the messages and turns that it must check are stopped.
              </Text>
            ) : null}
            {condition.cause === null ? null : (
              <Text size="sm" c="dimmed" className="foreign">
                {escapeText(condition.cause)}
              </Text>
            )}
          </Stack>
        </Group>
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
  readonly onClick: (event: Press) => void;
}

function MoveButton({ way, name, disabled, onClick }: MoveProps) {
  const Icon = way === 'up' ? IconArrowUp : IconArrowDown;
  return (
    <ActionIcon
      variant="default"
      size="lg"
      aria-label={`Run ${name} ${way === 'up' ? 'earlier' : 'later'}`}
      // Not `disabled`, which would take the focus away from the button that moved the plugin to the end.
      aria-disabled={disabled}
      {...(disabled ? { 'data-disabled': true } : { onClick })}
    >
      <Icon size={18} />
    </ActionIcon>
  );
}
