/** Shows the result of a hook: the outcome of each plugin and the resulting context. */
import { Alert, Stack, Text } from '@mantine/core';
import { Fragment } from 'react';
import type { HookAnswer, HookName, TraceLink } from '../../sdk/session/api-types.ts';
import { DataTable } from '../shell/data-table.tsx';
import { LogLink } from '../shell/log-link.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { StatusDot, type Tone } from '../shell/status-dot.tsx';
import { formatMilliseconds } from '../style/format-number.ts';
import { escapeText, formatJson } from '../style/untrusted-text.ts';

interface Outcome {
  readonly tone: Tone;
  readonly text: string;
}
/** Continues a sentence that begins with the plugin. */
const OUTCOMES: Readonly<Record<string, Outcome>> = {
  changed: { tone: 'good', text: 'changed' },
  unchanged: { tone: 'quiet', text: 'unchanged' },
  cancelled: { tone: 'fair', text: 'cancelled the operation' },
  skipped_error: { tone: 'bad', text: 'failed and was skipped' },
  skipped_timeout: { tone: 'bad', text: 'timed out and was skipped' },
  skipped_unavailable: { tone: 'bad', text: 'did not run and was skipped' },
  vetoed_error: { tone: 'bad', text: 'failed, so the operation stopped' },
  vetoed_timeout: { tone: 'bad', text: 'timed out, so the operation stopped' },
  vetoed_unavailable: { tone: 'bad', text: 'did not run, so the operation stopped' },
};
const TITLES = ['Plugin', 'Outcome', 'Took'];

export function ChainTrace({ answer }: { readonly answer: HookAnswer<HookName> }) {
  return (
    <Stack gap="sm" role="status">
      {answer.action === 'cancel' ? <Cancelled answer={answer} /> : null}
      {answer.trace.length === 0 ? (
        <Text size="sm" c="dimmed">
          No running plugin has this hook: it went through unchanged.
        </Text>
      ) : (
        <DataTable
          label="Links of the chain"
          titles={TITLES}
          rows={answer.trace.map(renderRow)}
          numeric={['Took']}
          staysTable
        />
      )}
      <PreformattedText>{formatJson(answer.context)}</PreformattedText>
    </Stack>
  );
}

function Cancelled({ answer: { trace, cancelledBy, reason } }: { readonly answer: HookAnswer<HookName> }) {
  const last = trace.findLast(({ slug }) => slug === cancelledBy);
  const { text } = describeOutcome(last?.outcome ?? 'cancelled');
  return (
    <Alert color="yellow" title={`${cancelledBy} ${text}`} className="foreign">
      {escapeText(reason ?? '')}
      {last && last.outcome !== 'cancelled' ? (
        <>
          {' '}
          <LogLink installationId={last.installationId}>Open its log</LogLink>
        </>
      ) : null}
    </Alert>
  );
}

const describeOutcome = (outcome: string): Outcome => OUTCOMES[outcome] ?? { tone: 'bad', text: outcome };

function renderRow({ installationId, slug, required, ms, outcome, reason }: TraceLink, index: number) {
  const { tone, text } = describeOutcome(outcome);
  const cells = [
    <Fragment key="plugin">
      <LogLink installationId={installationId}>{slug}</LogLink>
      {required ? ' (required)' : ''}
    </Fragment>,
    <Fragment key="outcome">
      <StatusDot tone={tone}>{text}</StatusDot>
      {reason ? (
        <Text size="xs" className="foreign">
          {escapeText(reason)}
        </Text>
      ) : null}
    </Fragment>,
    formatMilliseconds(ms),
  ];
  // A required plugin may be asked twice.
  return { key: String(index), cells };
}
