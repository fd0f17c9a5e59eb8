/** The live log with filters, pause, copy and download. */
import { Button, Chip, Group, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useMemo, useState } from 'react';
import { useAction } from '../rest/use-action.ts';
import { useAnnouncedResult } from '../shell/announcements.ts';
import { downloadFile } from '../shell/download-file.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { StatusDot } from '../shell/status-dot.tsx';
import { IconCopy, IconDownload, IconPlayerPause, IconPlayerPlay, IconSearch } from '../style/icons.tsx';
import { LINES_MAX, type LogLine, TEXT_MAX_MIB } from './held-lines.ts';
import { filterLines, formatLogLine } from './line-text.ts';
import { type Level, useLiveLines } from './live-lines.ts';
import { LogLines } from './log-lines.tsx';

const LEVELS: readonly Level[] = ['debug', 'info', 'warn', 'error'];
const TONES = { loading: 'quiet', live: 'good', reconnecting: 'fair', failed: 'bad' } as const;
/** A session id is applied, and the number of lines announced, when the user has not typed for this time. Milliseconds. */
const TYPING_MS = 300;
const ICON = { size: 15, stroke: 1.8 } as const;

export function LogView({ installationId }: { readonly installationId: string }) {
  const [levels, setLevels] = useState<string[]>([...LEVELS]);
  const [session, setSession] = useState('');
  const [text, setText] = useState('');
  const [sessionId] = useDebouncedValue(session.trim(), TYPING_MS);
  const levelList = LEVELS.filter((level) => levels.includes(level)).join(',');
  const { lines, hasOlder, loadOlder, state, error, retry } = useLiveLines({
    installationId,
    sessionId,
    levels: levelList,
  });
  const filter = `${installationId} ${sessionId} ${levelList}`;
  const [paused, setPaused] = useState<{ readonly filter: string; readonly lines: readonly LogLine[] } | null>(null);
  // Another filter ends the pause: the lines of the pause were selected by the old one.
  const frozen = paused?.filter === filter ? paused.lines : null;
  const older = useAction<void, void>(async () => {
    const added = (await loadOlder?.()) ?? [];
    setPaused((last) => (last?.filter === filter ? { filter, lines: [...added, ...last.lines] } : last));
  });
  const shown = frozen ?? lines;
  const found = useMemo(() => filterLines(shown, text), [shown, text]);
  const count = found.length === 1 ? '1 line' : `${found.length} lines`;
  const [searched] = useDebouncedValue(text, TYPING_MS);
  useAnnouncedResult(JSON.stringify([filter, searched]), state === 'loading' ? null : count);
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <TextInput
          aria-label="Filter by text"
          placeholder="Filter by text"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          leftSection={<IconSearch size={16} stroke={1.8} />}
          style={{ flex: '2 1 14rem' }}
        />
        <TextInput
          aria-label="Filter by session id"
          placeholder="Session id"
          value={session}
          onChange={(event) => setSession(event.currentTarget.value)}
          style={{ flex: '1 1 9rem' }}
        />
        <Chip.Group multiple value={levels} onChange={(chosen) => setLevels(chosen.length > 0 ? chosen : [...LEVELS])}>
          <Group gap={6} role="group" aria-label="Levels" className="log-levels">
            {LEVELS.map((level) => (
              <Chip key={level} value={level} size="xs" variant="light" radius="md">
                {level}
              </Chip>
            ))}
          </Group>
        </Chip.Group>
      </Group>
      <Group justify="space-between">
        <Group gap="sm">
          <StatusDot tone={frozen ? 'quiet' : TONES[state]}>{frozen ? 'paused' : state}</StatusDot>
          <Text size="sm" c="dimmed">
            {`${count} · kept for 24 hours`}
          </Text>
        </Group>
        <Group gap="xs">
          <Button
            size="xs"
            variant="default"
            aria-label={frozen ? undefined : 'Pause the log'}
            onClick={() => setPaused(frozen ? null : { filter, lines })}
            leftSection={frozen ? <IconPlayerPlay {...ICON} /> : <IconPlayerPause {...ICON} />}
          >
            {frozen ? `Resume (${countNew(lines, frozen)} new)` : 'Pause'}
          </Button>
          <Button
            size="xs"
            variant="default"
            disabled={found.length === 0}
            onClick={() => void copy(found)}
            leftSection={<IconCopy {...ICON} />}
          >
            Copy
          </Button>
          <Button
            size="xs"
            variant="default"
            disabled={found.length === 0}
            onClick={() => download(found)}
            leftSection={<IconDownload {...ICON} />}
          >
            Download
          </Button>
        </Group>
      </Group>
      {error ? <ErrorAlert error={error} reset={retry} /> : null}
      {hasOlder ? (
        <Group gap="sm">
          <Text size="sm" c="dimmed">
            {loadOlder === null
              ? `Older lines are not loaded: this page holds at most ${LINES_MAX.toLocaleString('en')} lines, and ${TEXT_MAX_MIB} MiB of text. The command bulkhead logs reads them.`
              : 'Older lines are not loaded, and the filter by text does not search them.'}
          </Text>
          {loadOlder === null ? null : (
            <Button size="xs" variant="default" loading={older.isPending} onClick={() => older.mutate()}>
              Load older lines
            </Button>
          )}
        </Group>
      ) : null}
      <LogLines
        lines={found}
        isLoading={state === 'loading' || state === 'failed'}
        hasOlder={hasOlder}
        follows={frozen === null}
      />
    </Stack>
  );
}

/** Counts the lines after the pause. While it lasts, the oldest lines may be dropped. */
const countNew = (lines: readonly LogLine[], frozen: readonly LogLine[]): number =>
  lines.length - 1 - lines.findLastIndex(({ id }) => id === frozen.at(-1)?.id);

async function copy(lines: readonly LogLine[]): Promise<void> {
  try {
    await navigator.clipboard.writeText(lines.map(formatLogLine).join('\n'));
    notifications.show({ message: lines.length === 1 ? '1 line is copied' : `${lines.length} lines are copied` });
  } catch {
    notifications.show({
      color: 'red',
      message: 'The browser does not allow this page to copy. Use “Download” instead.',
    });
  }
}

/** Downloads the lines as JSON Lines, which other tools can read. */
function download(lines: readonly LogLine[]): void {
  const name = `log-${lines[0]?.installationId ?? 'lines'}.jsonl`;
  downloadFile(name, new Blob(lines.map((line) => `${JSON.stringify(line)}\n`)));
}
