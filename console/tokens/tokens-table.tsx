/** A table of tokens with an action each. */
import type { ReactNode } from 'react';
import type { components } from '../../sdk/rest/schema.d.ts';
import { DataTable } from '../shell/data-table.tsx';
import { DescriptionList } from '../shell/description-list.tsx';
import { Timestamp, useTimestampFormat } from '../shell/timestamp.tsx';

export type Token = components['schemas']['Token'];

const TITLES = ['Name', 'Scopes', 'Created', 'Last used', 'Expires', 'Actions'];

interface Props {
  readonly label: string;
  readonly tokens: readonly Token[];
  /** @param title the token's name; if another token has it, also when the token was created */
  readonly actions: (token: Token, title: string) => ReactNode;
}

export function TokensTable({ label, tokens, actions }: Props) {
  const formatTimestamp = useTimestampFormat();
  const rows = tokens.map((token) => ({
    key: token.id,
    cells: [
      token.current ? `${token.name} (this one)` : token.name,
      describeScopes(token),
      <Timestamp key="created" at={token.createdAt} />,
      <Timestamp key="used" at={token.lastUsedAt} none="never" />,
      <Timestamp key="expires" at={token.expiresAt} />,
      actions(token, describeTitle(token, tokens, formatTimestamp)),
    ],
  }));
  return <DataTable label={label} titles={TITLES} rows={rows} />;
}

/** Names do not identify a token: without `--name`, all have the same. */
function describeTitle(
  { name, createdAt }: Token,
  tokens: readonly Token[],
  formatTimestamp: (at: string) => string,
): string {
  const isRepeated = tokens.filter((token) => token.name === name).length > 1;
  return isRepeated ? `${name} of ${formatTimestamp(createdAt)}` : name;
}

const describeScopes = ({ scopes }: Token): string => scopes?.join(', ') ?? 'all';

/** What a dialog shows of its token. */
export function TokenFacts({ token }: { readonly token: Token }) {
  return (
    <DescriptionList
      rows={[
        ['Name', token.name],
        ['Scopes', describeScopes(token)],
        ['Created', <Timestamp key="created" at={token.createdAt} />],
        ['Last used', <Timestamp key="used" at={token.lastUsedAt} none="never" />],
      ]}
    />
  );
}
