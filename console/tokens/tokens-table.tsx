/** A table of tokens with an action each. */
import type { ReactNode } from 'react';
import type { components } from '../rest/schema.d.ts';
import { DataTable } from '../shell/data-table.tsx';
import { Timestamp } from '../shell/timestamp.tsx';

export type Token = components['schemas']['Token'];

const TITLES = ['Name', 'Scopes', 'Created', 'Last used', 'Expires', 'Actions'];

interface Props {
  readonly label: string;
  readonly tokens: readonly Token[];
  readonly actions: (token: Token) => ReactNode;
}

export function TokensTable({ label, tokens, actions }: Props) {
  const rows = tokens.map((token) => ({
    key: token.id,
    cells: [
      token.current ? `${token.name} (this one)` : token.name,
      token.scopes?.join(', ') ?? 'all',
      <Timestamp key="created" at={token.createdAt} />,
      token.lastUsedAt === null ? 'never' : <Timestamp key="used" at={token.lastUsedAt} />,
      <Timestamp key="expires" at={token.expiresAt} />,
      actions(token),
    ],
  }));
  return <DataTable label={label} titles={TITLES} rows={rows} />;
}
