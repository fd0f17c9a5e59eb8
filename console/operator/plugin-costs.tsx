/** Lists the plugins of the last day, with actions to block a plugin and to verify its author. */
import { Group, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { milliseconds } from '../metrics/points-table.tsx';
import { rest } from '../rest/client.ts';
import type { components } from '../rest/schema.d.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { escapeText } from '../style/untrusted-text.ts';

type Plugin = components['schemas']['PluginCosts']['plugins'][number];

const TITLES = ['Plugin', 'Author', 'Installed', 'Calls', 'Failed', '95 % within', 'Restarts', 'Processor', 'Do'];
const PERCENT = 100;
const SECOND_MS = 1_000;

export function PluginCosts({ rows }: { readonly rows: readonly Plugin[] }) {
  if (rows.length === 0) return <EmptyState>No plugin was called in the last 24 hours.</EmptyState>;
  const shown = rows.map((row) => ({
    key: row.slug,
    cells: [
      row.blockedReason === null ? row.slug : `${row.slug} (blocked: ${escapeText(row.blockedReason)})`,
      row.verified ? `${row.author} (verified)` : row.author,
      row.installations,
      row.calls,
      row.calls === 0 ? '–' : `${Math.round((row.failures / row.calls) * PERCENT)} %`,
      milliseconds(row.p95Ms),
      row.restarts,
      `${Math.round(row.processorMs / SECOND_MS)} s`,
      <Actions key="do" plugin={row} />,
    ],
  }));
  return <DataTable label="Plugins by cost" titles={TITLES} rows={shown} numeric={TITLES.slice(2, -1)} />;
}

function Actions({ plugin: { slug, author, verified, blockedReason } }: { readonly plugin: Plugin }) {
  const params = { path: { name: author } };
  return (
    <Group gap="xs" wrap="nowrap">
      {blockedReason === null ? (
        <Block slug={slug} />
      ) : (
        <ActionButton
          aria-label={`Unblock ${slug}`}
          run={() => rest.POST('/operator/plugins/{slug}/unblock', { params: { path: { slug } } })}
          done={`${slug} is no longer blocked`}
        >
          Unblock
        </ActionButton>
      )}
      <ActionButton
        aria-label={`${verified ? 'Unverify' : 'Verify'} ${author}`}
        run={() => rest.POST(`/operator/accounts/{name}/${verified ? 'unverify' : 'verify'}`, { params })}
        done={`${author} is ${verified ? 'no longer verified' : 'verified'}`}
      >
        {verified ? 'Unverify' : 'Verify'}
      </ActionButton>
    </Group>
  );
}

function Block({ slug }: { readonly slug: string }) {
  const [reason, setReason] = useState('');
  return (
    <ConfirmButton
      label={`Block ${slug}`}
      short="Block"
      title={`Block ${slug}?`}
      run={() => rest.POST('/operator/plugins/{slug}/block', { params: { path: { slug } }, body: { reason } })}
      done={`${slug} is blocked`}
    >
      <Stack>
        <Text>The plugin is removed from the catalog and stops in all accounts. Its users see the reason.</Text>
        <TextInput
          label="Reason"
          value={reason}
          maxLength={500}
          required
          onChange={({ currentTarget }) => setReason(currentTarget.value)}
        />
      </Stack>
    </ConfirmButton>
  );
}
