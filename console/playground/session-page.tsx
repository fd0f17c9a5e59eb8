/** The page of one session. */
import { Code, Grid, Group, Skeleton, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { type UIEvent, useLayoutEffect, useRef } from 'react';
import type { Judgement, Page, SessionRecord, TranscriptMessage } from '../../sdk/session/api-types.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { callSessions } from '../rest/session-api.ts';
import { useReadError } from '../rest/use-read-error.ts';
import { useSubject } from '../rest/use-subject.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { isEndVisible } from '../shell/scroll-end.ts';
import { Section } from '../shell/section.tsx';
import { useLeaving } from '../shell/use-leaving.ts';
import { escapeText } from '../style/untrusted-text.ts';
import { HookCoverageList } from './hook-coverage.tsx';
import { MessageForm } from './message-form.tsx';
import { PromptForm } from './prompt-form.tsx';
import { ToolForm } from './tool-form.tsx';

/** Number of recent messages that are shown. They are read again every few seconds. */
const SHOWN = 200;

export function SessionPage() {
  const { id } = useParams({ from: '/playground/$id' });
  const path = `/sessions/${encodeURIComponent(id)}`;
  const session = useSubject(['sessions', id], () => callSessions<SessionRecord>('GET', path));
  if (session.error) return <ErrorAlert isPage error={session.error} reset={session.refetch} />;
  if (!session.data) return <Skeleton height={240} aria-label="Loading" />;
  return (
    <Stack gap="lg">
      <PageHeader title={escapeText(session.data.agentName)} subtitle={<Monospace>{id}</Monospace>}>
        <SessionButtons id={id} path={path} />
      </PageHeader>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 7 }}>
          <Stack>
            <Section title="Transcript">
              <Transcript id={id} path={path} />
            </Section>
            <Section title="A message arrives">
              <MessageForm path={path} />
            </Section>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 5 }}>
          <Stack>
            <Section title="The system prompt">
              <PromptForm path={path} />
            </Section>
            <Section title="Tools">
              <ToolForm path={path} />
            </Section>
            <Section title="Hooks">
              <HookCoverageList id={id} path={path} />
            </Section>
          </Stack>
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

function SessionButtons({ id, path }: PathProps) {
  const startLeaving = useLeaving();
  const { data } = useTranscript({ id, path });
  const remove = async () => {
    const leaveTo = startLeaving();
    await callSessions('DELETE', path);
    await leaveTo({ to: '/playground' });
  };
  return (
    <Group gap="xs">
      <ConfirmButton
        label="Clear"
        title="Clear the transcript?"
        run={() =>
          callSessions('POST', `${path}/clear`, { reason: 'cleared in the console', by: 'user', trigger: 'user' })
        }
        done="The session is cleared"
      >
        <Text>
          {`${describeCount(data)} removed permanently. The session stays. Plugins can refuse it with their hook sessionClear.`}
        </Text>
      </ConfirmButton>
      <ConfirmButton label="Delete" title="Delete the session" run={remove} done="The session is deleted">
        <Text>The transcript is removed permanently. Plugins receive sessionDeleted.</Text>
      </ConfirmButton>
    </Group>
  );
}

interface PathProps {
  readonly id: string;
  readonly path: string;
}

/** Newest first. */
const useTranscript = ({ id, path }: PathProps) =>
  useQuery({
    queryKey: ['sessions', id, 'messages'],
    queryFn: () => callSessions<Page<TranscriptMessage>>('GET', `${path}/messages?order=newest&limit=${SHOWN}`),
    refetchInterval: FOLLOW_MS,
  });

function describeCount(transcript: Page<TranscriptMessage> | undefined): string {
  if (transcript === undefined) return 'All messages are';
  const count = transcript.items.length;
  if (transcript.nextCursor !== null) return `More than ${count} messages are`;
  return count === 1 ? '1 message is' : `${count} messages are`;
}

function Transcript({ id, path }: PathProps) {
  const found = useTranscript({ id, path });
  const error = useReadError(found);
  if (error && !found.data) return <ErrorAlert error={error} reset={() => void found.refetch()} />;
  if (!found.data) return <Skeleton height={60} aria-label="Loading" className="loading-list" />;
  const { items, nextCursor } = found.data;
  if (items.length === 0) return <Text c="dimmed">There are no messages yet.</Text>;
  return (
    <>
      {nextCursor === null ? null : (
        <Text size="sm" c="dimmed">
          Only the newest {items.length} messages are shown. The session API lists the older ones:{' '}
          <Code>GET {path}/messages</Code>
        </Text>
      )}
      <MessageList items={items} />
    </>
  );
}

/** Follows new messages while its end is visible. Otherwise what the user reads stays where it is. */
function MessageList({ items }: Pick<Page<TranscriptMessage>, 'items'>) {
  const list = useRef<HTMLOListElement>(null);
  const isAtEnd = useRef(true);
  const newest = items[0]?.id;
  // biome-ignore lint/correctness/useExhaustiveDependencies: scrolls when a message is added
  useLayoutEffect(() => {
    if (isAtEnd.current) list.current?.scrollTo({ top: list.current.scrollHeight });
  }, [newest]);
  const onScroll = ({ currentTarget }: UIEvent) => {
    isAtEnd.current = isEndVisible(currentTarget);
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <ol className="transcript" aria-label="Messages" tabIndex={0} ref={list} onScroll={onScroll}>
      {items.toReversed().map(({ id, role, text, judgement }) => (
        <li key={id} className="said" data-role={role}>
          <Text size="xs" c="dimmed">
            {role}
          </Text>
          <div className="foreign">{escapeText(text)}</div>
          {judgement?.outcome === 'cancelled' ? <Cancelled judgement={judgement} /> : null}
        </li>
      ))}
    </ol>
  );
}

/** A message that was cancelled by a later turn has no text any more. */
const Cancelled = ({ judgement: { by, reason } }: { readonly judgement: Judgement }) => (
  <Text size="sm" c="dimmed" className="foreign">
    Cancelled by {by.join(', ')}: {escapeText(reason ?? 'no reason is given')}
  </Text>
);
