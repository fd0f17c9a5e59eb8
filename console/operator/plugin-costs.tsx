/** Lists the plugins with their costs of the last day, and actions to block a plugin and to verify its author. */
import { Group, Text } from '@mantine/core';
import { Fragment } from 'react';
import type { components } from '../../sdk/rest/schema.d.ts';
import { rest } from '../rest/client.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { TextField } from '../shell/form-fields.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { bindField, useFields } from '../shell/use-fields.ts';
import { formatMilliseconds } from '../style/format-number.ts';
import { escapeText } from '../style/untrusted-text.ts';
import { ROWS_MAX } from './row-limit.tsx';

type Plugin = components['schemas']['PluginCosts']['plugins'][number];

const TITLES = ['Plugin', 'Author', 'Installed', 'Calls', 'Failed', 'p95', 'Restarts', 'Processor', 'Actions'];
const PERCENT = 100;
const SECOND_MS = 1_000;

interface Props {
  readonly rows: readonly Plugin[];
  /** The search text of the rows. Empty: all plugins. */
  readonly search: string;
}

export function describePlugins(count: number, search: string): string {
  if (count === 0) return search === '' ? 'There is no plugin yet.' : `No plugin or author matches “${search}”.`;
  if (count >= ROWS_MAX) return `${count} plugins, and maybe more`;
  return count === 1 ? '1 plugin' : `${count} plugins`;
}

export function PluginCosts({ rows, search }: Props) {
  if (rows.length === 0) return <EmptyState>{describePlugins(0, search)}</EmptyState>;
  const shown = rows.map((row) => ({
    key: row.slug,
    cells: [
      <Fragment key="plugin">
        <PageLink to="/catalog/$slug" params={{ slug: row.slug }} underline="always">
          {row.slug}
        </PageLink>
        {row.blockedReason === null ? '' : ` (blocked: ${escapeText(row.blockedReason)})`}
      </Fragment>,
      row.verified ? `${row.author} (verified)` : row.author,
      row.installations,
      row.calls,
      row.calls === 0 ? '–' : `${Math.round((row.failures / row.calls) * PERCENT)} %`,
      formatMilliseconds(row.p95Ms),
      row.restarts,
      `${Math.round(row.processorMs / SECOND_MS)} s`,
      <Actions key="do" plugin={row} />,
    ],
  }));
  return <DataTable label="Plugins by cost" titles={TITLES} rows={shown} numeric={TITLES.slice(2, -1)} />;
}

function Actions({ plugin: { slug, author, verified, blockedReason } }: { readonly plugin: Plugin }) {
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
      <Verify author={author} verified={verified} />
    </Group>
  );
}

function Verify({ author, verified }: Pick<Plugin, 'author' | 'verified'>) {
  const verb = verified ? 'Unverify' : 'Verify';
  return (
    <ConfirmButton
      label={`${verb} author ${author}`}
      short={`${verb} author`}
      run={() =>
        rest.POST(`/operator/accounts/{name}/${verified ? 'unverify' : 'verify'}`, {
          params: { path: { name: author } },
        })
      }
      done={`${author} is ${verified ? 'no longer verified' : 'verified'}`}
      isHarmless={!verified}
    >
      <Text>
        {verified
          ? 'The catalog no longer shows this author’s name as verified, on any of their plugins.'
          : 'The catalog shows this author’s name as verified, on everything they publish now and later. Verify only an author whose identity you have checked.'}
      </Text>
    </ConfirmButton>
  );
}

function Block({ slug }: { readonly slug: string }) {
  const fields = useFields({ reason: '' });
  return (
    <ConfirmButton
      label={`Block ${slug}`}
      short="Block"
      run={() => rest.POST('/operator/plugins/{slug}/block', { params: { path: { slug } }, body: fields.values })}
      done={`${slug} is blocked`}
      fields={fields}
    >
      <Text>The plugin is removed from the catalog and stops in all accounts. Its users see the reason.</Text>
      <TextField label="Reason" {...bindField(fields, 'reason')} maxLength={500} required />
    </ConfirmButton>
  );
}
