/** The page of the host's services for the account's agents: to-dos, reminders, mail between agents, and SSH hosts. */
import { Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import type { Page, Reminder, SessionRecord, Todo } from '../../sdk/session/api-types.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { callSessions } from '../rest/session-api.ts';
import { useAgents } from '../rest/use-agents.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { Section } from '../shell/section.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { shortenText } from '../style/short-text.ts';
import { escapeText } from '../style/untrusted-text.ts';
import { SshHosts } from './ssh-hosts.tsx';

interface AccountReminder extends Reminder {
  readonly sessionId: string;
}
interface ReceivedMail {
  readonly messageId: string;
  readonly sessionId: string;
  readonly fromAgentId: string;
  readonly toAgentId: string;
  readonly text: string;
  readonly at: string;
}

export function ServicesPage() {
  return (
    <Stack>
      <PageHeader title="Services" subtitle="What Bulkhead does for your agents: to-dos, reminders, mail and SSH." />
      <Todos />
      <Reminders />
      <Mail />
      <SshHosts />
    </Stack>
  );
}

/** Names an agent of a plugin, whose id says nothing to a person. A runtime chooses the ids of its own agents. */
function useAgentName(): (id: string) => string {
  const agents = useAgents();
  return (id) => escapeText(agents?.items.find((agent) => agent.id === id)?.name ?? id);
}

function Todos() {
  const nameAgent = useAgentName();
  const [done, setDone] = useState<'false' | 'true'>('false');
  return (
    <Section title="To-dos">
      <Stack gap="sm">
        <NativeSelect
          label="Show to-dos that are"
          maw={240}
          value={done}
          onChange={(event) => setDone(event.currentTarget.value === 'true' ? 'true' : 'false')}
          data={[
            { value: 'false', label: 'open' },
            { value: 'true', label: 'done' },
          ]}
        />
        <PagedList
          queryKey={['services', 'todos', done]}
          read={(page) => callSessions<Page<Todo>>('GET', `/todos?${new URLSearchParams({ done, ...page })}`)}
          refreshMs={FOLLOW_MS}
          nouns={['to-do', 'to-dos']}
          keepsPrevious
          empty={
            done === 'true'
              ? 'No to-do is done.'
              : 'There are no open to-dos. Agents whose sessions offer the tools todo__… add to-dos here.'
          }
        >
          {(todos) => (
            <DataTable
              label="To-dos"
              titles={['To do', 'Due', 'For', 'Actions']}
              rows={todos.map((todo) => describeTodo(todo, nameAgent))}
            />
          )}
        </PagedList>
      </Stack>
    </Section>
  );
}

function describeTodo({ id, title, notes, dueAt, assigneeAgentId, done }: Todo, nameAgent: (id: string) => string) {
  const name = escapeText(shortenText(title));
  return {
    key: id,
    cells: [
      <Stack key="what" gap={0}>
        <Text size="sm" className="foreign">
          {escapeText(title)}
        </Text>
        {notes === '' ? null : (
          <Text size="xs" c="dimmed" lineClamp={2} className="foreign">
            {escapeText(notes)}
          </Text>
        )}
      </Stack>,
      dueAt === null ? 'any time' : <Timestamp key="due" at={dueAt} />,
      assigneeAgentId === null ? 'all agents' : nameAgent(assigneeAgentId),
      <Group key="do" gap="xs" wrap="nowrap">
        {done ? null : (
          <ActionButton
            aria-label={`Complete ${name}`}
            run={() => changeTodo('PATCH', id, { done: true, trigger: 'user' })}
            done={`${name} is done`}
          >
            Complete
          </ActionButton>
        )}
        <ConfirmButton
          label={`Delete ${name}`}
          short="Delete"
          run={() => changeTodo('DELETE', id)}
          done={`${name} is deleted`}
        >
          <Text>It disappears for all agents of your account.</Text>
        </ConfirmButton>
      </Group>,
    ],
  };
}

/** The hooks of a change run in a session: the newest one. */
async function changeTodo(method: 'PATCH' | 'DELETE', id: string, body?: object): Promise<unknown> {
  const { items } = await callSessions<Page<SessionRecord>>('GET', '/sessions?limit=1');
  const [session] = items;
  if (!session)
    throw new Error(
      'Changing a to-do runs plugins’ hooks in a session, and you have none. Open one in the playground.',
    );
  const query = method === 'DELETE' ? '?trigger=user' : '';
  return callSessions(method, `/sessions/${session.id}/todos/${encodeURIComponent(id)}${query}`, body);
}

function Reminders() {
  return (
    <Section title="Reminders">
      <PagedList
        queryKey={['services', 'reminders']}
        read={(page) => callSessions<Page<AccountReminder>>('GET', `/notifications?${new URLSearchParams(page)}`)}
        refreshMs={FOLLOW_MS}
        empty="No reminder is scheduled. Agents whose sessions offer the tools notify__… schedule them."
      >
        {(reminders) => (
          <DataTable
            label="Reminders"
            titles={['Text', 'Next', 'Repeats', 'Last', 'Actions']}
            rows={reminders.map(describeReminder)}
          />
        )}
      </PagedList>
    </Section>
  );
}

function describeReminder({ id, sessionId, text, to, zone, repeat, nextAt, lastAt, lastOutcome }: AccountReminder) {
  return {
    key: `${sessionId} ${id}`,
    cells: [
      <Stack key="what" gap={0}>
        <Text size="sm" lineClamp={2} className="foreign">
          {escapeText(text)}
        </Text>
        <Text size="xs" c="dimmed" className="foreign">
          to {escapeText(to)} in <OpenSession id={sessionId} />
        </Text>
      </Stack>,
      nextAt === null ? 'over' : <Timestamp key="next" at={nextAt} />,
      repeat === null ? 'once' : `${escapeText(repeat)} (${escapeText(zone)})`,
      lastAt === null ? (
        'never'
      ) : (
        <Group key="last" gap={4}>
          <span>{lastOutcome}</span> <Timestamp at={lastAt} />
        </Group>
      ),
      <ConfirmButton
        key="do"
        label={`Cancel ${escapeText(shortenText(text))}`}
        short="Cancel"
        title="Cancel the reminder?"
        run={() => callSessions('DELETE', `/sessions/${sessionId}/notifications/${encodeURIComponent(id)}`)}
        done="The reminder is cancelled"
      >
        <Text>It will not be due again.</Text>
      </ConfirmButton>,
    ],
  };
}

function Mail() {
  const nameAgent = useAgentName();
  return (
    <Section title="Mail between agents">
      <PagedList
        queryKey={['services', 'mail']}
        read={(page) => callSessions<Page<ReceivedMail>>('GET', `/mail?${new URLSearchParams(page)}`)}
        refreshMs={FOLLOW_MS}
        empty="No agent has written mail. Agents whose sessions offer the tool agent__send send it."
      >
        {(mail) => (
          <DataTable
            label="Mail between agents"
            titles={['From', 'To', 'Text', 'When']}
            rows={mail.map((one) => describeMail(one, nameAgent))}
          />
        )}
      </PagedList>
    </Section>
  );
}

const describeMail = (
  { messageId, sessionId, fromAgentId, toAgentId, text, at }: ReceivedMail,
  nameAgent: (id: string) => string,
) => ({
  key: `${sessionId} ${messageId}`,
  cells: [
    nameAgent(fromAgentId),
    <Group key="to" gap={4}>
      {nameAgent(toAgentId)} in <OpenSession id={sessionId} />
    </Group>,
    <Text key="text" size="sm" lineClamp={3} className="foreign">
      {escapeText(text)}
    </Text>,
    <Timestamp key="at" at={at} />,
  ],
});

const OpenSession = ({ id }: { readonly id: string }) => (
  <PageLink to="/playground/$id" params={{ id }} size="xs" underline="always">
    its session
  </PageLink>
);
