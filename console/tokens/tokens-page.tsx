/** Lists the account's tokens, which can be renamed and revoked. */
import { Code, Group, Stack, Text } from '@mantine/core';
import { readBody, rest } from '../rest/client.ts';
import { useMe } from '../rest/me.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { TextField } from '../shell/form-fields.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { bindField, useFields } from '../shell/use-fields.ts';
import { IconShieldCheck } from '../style/icons.tsx';
import { Delegations } from './delegations.tsx';
import { type Token, TokenFacts, TokensTable } from './tokens-table.tsx';

/** Limit of the REST interface. Characters. */
const NAME_MAX_CHARS = 100;

export function TokensPage() {
  const me = useMe();
  return (
    <Stack>
      <PageHeader
        title="Tokens"
        subtitle="The tokens with which you, your command line and your agent runtimes sign in."
      />
      <PagedList
        queryKey={['me', 'tokens']}
        read={(page) => readBody(rest.GET('/me/tokens', { params: { query: page } }))}
        empty={
          <EmptyState icon={IconShieldCheck}>
            You have no token of this service: a sign-in link or an identity provider has signed you in. For a command
            line or an agent runtime, ask the operator for a token.{' '}
            <Code>npm run -s token -- {me.data?.name ?? 'ann'}</Code> prints one.
          </EmptyState>
        }
      >
        {(tokens) => (
          <TokensTable
            label="Your tokens"
            tokens={tokens}
            actions={(token, title) => <Actions token={token} title={title} />}
          />
        )}
      </PagedList>
      <Group>
        <ConfirmButton label="Revoke all tokens" run={() => rest.DELETE('/me/tokens')} done="All tokens are revoked">
          <Text>
            Everything that signs in as you is signed out: this console, command lines, agent runtimes. Sign-in links
            end, and services that act for you must be allowed again.
          </Text>
        </ConfirmButton>
      </Group>
      <Delegations />
    </Stack>
  );
}

interface ActionsProps {
  readonly token: Token;
  readonly title: string;
}

function Actions({ token, title }: ActionsProps) {
  const { id } = token;
  const fields = useFields({ name: token.name });
  return (
    <Group gap="xs" wrap="nowrap">
      <ConfirmButton
        label={`Rename ${title}`}
        short="Rename"
        title={`Rename ${title}`}
        run={() => rest.PATCH('/me/tokens/{id}', { params: { path: { id } }, body: fields.values })}
        done={`The token is renamed to ${fields.values.name}`}
        fields={fields}
        isHarmless
      >
        <TextField label="Name" {...bindField(fields, 'name')} maxLength={NAME_MAX_CHARS} required />
      </ConfirmButton>
      <ConfirmButton
        label={`Revoke ${title}`}
        short="Revoke"
        run={() => rest.DELETE('/me/tokens/{id}', { params: { path: { id } } })}
        done={`${title} is revoked`}
      >
        <TokenFacts token={token} />
        <Text>
          {token.current
            ? 'You are signed in with it: this console is signed out.'
            : 'Programs that use it are signed out.'}
        </Text>
      </ConfirmButton>
    </Group>
  );
}
