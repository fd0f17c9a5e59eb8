/** A virtualized list of log lines. */
import { Text } from '@mantine/core';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type UIEvent, useEffect, useLayoutEffect, useRef } from 'react';
import { isEndVisible } from '../shell/scroll-end.ts';
import type { Tone } from '../shell/status-dot.tsx';
import { useTimestampFormat } from '../shell/timestamp.tsx';
import type { LogLine } from './held-lines.ts';
import { formatData, formatMessage } from './line-text.ts';
import type { Level } from './live-lines.ts';

const LINE_PX = 23;
const TONES: Readonly<Record<Level, Tone>> = { debug: 'quiet', info: 'good', warn: 'fair', error: 'bad' };

interface Props {
  readonly lines: readonly LogLine[];
  readonly isLoading: boolean;
  /** Whether the log has older lines that are not loaded. */
  readonly hasOlder: boolean;
  /** Whether the list follows new lines while its end is visible. */
  readonly follows: boolean;
}

export function LogLines({ lines, isLoading, hasOlder, follows }: Props) {
  const view = useRef<HTMLElement>(null);
  const isAtEnd = useRef(true);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => view.current,
    estimateSize: () => LINE_PX,
    getItemKey: (at) => lines[at]?.id ?? at,
    overscan: 20,
  });
  useEffect(() => {
    if (follows && isAtEnd.current && lines.length > 0) virtual.scrollToIndex(lines.length - 1, { align: 'end' });
    // Not `lines.length`, which stays the same when new lines replace the oldest ones.
  }, [lines, follows, virtual]);
  const first = useRef(lines[0]?.id);
  // What the user reads stays where it is when older lines are added above it.
  useLayoutEffect(() => {
    const added = lines.findIndex(({ id }) => id === first.current);
    first.current = lines[0]?.id;
    const [height] = (added > 0 ? virtual.getOffsetForIndex(added, 'start') : undefined) ?? [0];
    if (height > 0) virtual.scrollToOffset((virtual.scrollOffset ?? 0) + height);
  }, [lines, virtual]);
  const onScroll = ({ currentTarget }: UIEvent) => {
    isAtEnd.current = isEndVisible(currentTarget);
  };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className="log-view" aria-label="Log lines" tabIndex={0} ref={view} onScroll={onScroll}>
      {lines.length === 0 && !isLoading ? (
        <Text p="xl" size="sm" c="dimmed" ta="center" ff="var(--mantine-font-family)">
          {hasOlder ? 'None of the loaded lines match the filter.' : 'There are no lines to show.'} New lines appear
          here when the plugin calls host.log.
        </Text>
      ) : null}
      <div style={{ height: virtual.getTotalSize(), position: 'relative' }}>
        {virtual.getVirtualItems().map(({ index, key, start }) => {
          const line = lines[index];
          return line ? (
            <div
              key={key}
              ref={virtual.measureElement}
              data-index={index}
              data-tone={TONES[line.level]}
              className="log-line"
              style={{ transform: `translateY(${start}px)` }}
            >
              <Line line={line} />
            </div>
          ) : null;
        })}
      </div>
    </section>
  );
}

function Line({ line }: { readonly line: LogLine }) {
  const formatTimestamp = useTimestampFormat();
  return (
    <>
      <time dateTime={line.at} title={line.at}>
        {formatTimestamp(line.at)}
      </time>
      <strong>{line.level}</strong>
      <span className="foreign log-source" title={line.source}>
        {line.source}
      </span>
      <span className="foreign log-said">
        {formatMessage(line)} {line.data == null ? null : <span className="log-data">{formatData(line)}</span>}
      </span>
    </>
  );
}
