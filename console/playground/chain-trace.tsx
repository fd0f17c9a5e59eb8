/** Shows the result of a hook: the outcome of each plugin and the resulting context. */
import { Alert, Stack, Text } from '@mantine/core';
import { Fragment } from 'react';
import type { HookAnswer, HookName, TraceLink } from '../../sdk/session/api-types.ts';
import { DataTable } from '../shell/data-table.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { StatusDot, type Tone } from '../shell/status-dot.tsx';
import { escapeText, formatJson } from '../style/untrusted-text.ts';

const TONES: Readonly<Record<string, Tone>> = { changed: 'good', unchanged: 'quiet', cancelled: 'fair' };
const TITLES = ['Plugin', 'Outcome', 'Took'];

export function ChainTrace({ answer }: { readonly answer: HookAnswer<HookName> }) {
  return (
    <Stack gap="sm" role="status">
      {answer.action === 'cancel' ? (
        <Alert color="yellow" title={`${answer.cancelledBy} cancelled the operation`} className="foreign">
          {escapeText(answer.reason ?? '')}
        </Alert>
      ) : null}
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

function renderRow({ slug, required, ms, outcome, reason }: TraceLink, index: number) {
  const cells = [
    required ? `${slug} (required)` : slug,
    <Fragment key="outcome">
      <StatusDot tone={TONES[outcome] ?? 'bad'}>{outcome}</StatusDot>
      {reason ? (
        <Text size="xs" className="foreign">
          {escapeText(reason)}
        </Text>
      ) : null}
    </Fragment>,
    `${Math.round(ms * 10) / 10} ms`,
  ];
  // A required plugin may be asked twice.
  return { key: String(index), cells };
}
