/** Lists accounts for operators, with actions to suspend, appoint and sign them out. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue, useDisclosure, useInputState } from '@mantine/hooks';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { TextField } from '../shell/form-fields.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { bindField, useFields } from '../shell/use-fields.ts';
import { escapeText } from '../style/untrusted-text.ts';
import { TokenFacts, TokensTable } from '../tokens/tokens-table.tsx';

type Account = components['schemas']['KnownAccount'];

/** After the last key, milliseconds. */
const SEARCH_AFTER_MS = 250;
/** Limit of the REST interface. Characters. */
const REASON_MAX_CHARS = 500;
const TITLES = ['Account', 'Issuer', 'Rights', 'Since', 'Actions'];

export function AccountsView() {
  const [typed, setTyped] = useInputState('');
  const [search] = useDebouncedValue(typed.trim(), SEARCH_AFTER_MS);
  const name = search === '' ? {} : { name: search };
  return (
    <Stack>
      <TextInput label="Find an account" maw={360} value={typed} onChange={setTyped} />
      <PagedList
        queryKey={['operator', 'accounts', search]}
        read={(page) => readBody(rest.GET('/operator/accounts', { params: { query: { ...name, ...page } } }))}
        nouns={['account', 'accounts']}
        empty="No account has that name."
        keepsPrevious
      >
        {(accounts) => <AccountsTable accounts={accounts} />}
      </PagedList>
    </Stack>
  );
}

function AccountsTable({ accounts }: { readonly accounts: readonly Account[] }) {
  const rows = accounts.map((account) => ({
    key: account.name,
    cells: [
      account.suspendedReason === null
        ? account.name
        : `${account.name} (suspended: ${escapeText(account.suspendedReason)})`,
      account.issuer,
      account.operator ? 'operator' : 'user',
      <Timestamp key="since" at={account.createdAt} />,
      <Actions key="do" account={account} />,
    ],
  }));
  return <DataTable label="Accounts" titles={TITLES} rows={rows} />;
}

function Actions({ account: { name, operator, suspendedReason } }: { readonly account: Account }) {
  const path = { params: { path: { name } } };
  return (
    <Group gap="xs" wrap="nowrap">
      {suspendedReason === null ? (
        <Suspend name={name} />
      ) : (
        <ActionButton
          aria-label={`Resume ${name}`}
          run={() => rest.POST('/operator/accounts/{name}/resume', path)}
          done={`${name} is no longer suspended`}
        >
          Resume
        </ActionButton>
      )}
      <ConfirmButton
        label={operator ? `Demote ${name}` : `Appoint ${name}`}
        short={operator ? 'Demote' : 'Appoint'}
        run={() => rest.POST(`/operator/accounts/{name}/${operator ? 'demote' : 'appoint'}`, path)}
        done={`${name} is ${operator ? 'no longer' : 'now'} an operator`}
        isHarmless={!operator}
      >
        <Text>
          {operator
            ? 'The account can no longer see or change what belongs to others.'
            : 'Operators see all accounts, and can stop the plugins and the accounts of others.'}
        </Text>
      </ConfirmButton>
      <Tokens name={name} />
    </Group>
  );
}

function Suspend({ name }: { readonly name: string }) {
  const fields = useFields({ reason: '' });
  return (
    <ConfirmButton
      label={`Suspend ${name}`}
      short="Suspend"
      run={() => rest.POST('/operator/accounts/{name}/suspend', { params: { path: { name } }, body: fields.values })}
      done={`${name} is suspended`}
      fields={fields}
    >
      <Text>
        Until you resume the account, all its requests are refused and its plugins stop. Webhooks for them wait. Its
        sign-ins and tokens work again afterwards, unless you revoke them. Plugins that it published keep running for
        others. The user sees the reason.
      </Text>
      <TextField label="Reason" {...bindField(fields, 'reason')} maxLength={REASON_MAX_CHARS} required />
    </ConfirmButton>
  );
}

function Tokens({ name }: { readonly name: string }) {
  const [isOpen, { open, close }] = useDisclosure(false);
  return (
    <>
      <Button size="xs" variant="default" aria-label={`Tokens of ${name}`} onClick={open}>
        Tokens
      </Button>
      <Dialog title={`Tokens of ${name}`} opened={isOpen} onClose={close}>
        <TokensOf name={name} />
      </Dialog>
    </>
  );
}

function TokensOf({ name }: { readonly name: string }) {
  return (
    <Stack>
      <PagedList
        queryKey={['operator', 'tokens', name]}
        read={(page) =>
          readBody(rest.GET('/operator/accounts/{name}/tokens', { params: { path: { name }, query: page } }))
        }
        empty="Bulkhead has issued this account no token that is still valid."
      >
        {(tokens) => (
          <TokensTable
            label={`Tokens of ${name}`}
            tokens={tokens}
            actions={(token, title) => (
              <ConfirmButton
                label={`Revoke ${title}`}
                short="Revoke"
                run={() =>
                  rest.DELETE('/operator/accounts/{name}/tokens/{id}', { params: { path: { name, id: token.id } } })
                }
                done={`${title} is revoked`}
              >
                <TokenFacts token={token} />
                <Text>What signs in with this token is signed out.</Text>
              </ConfirmButton>
            )}
          />
        )}
      </PagedList>
      <Group>
        <ConfirmButton
          label="Revoke all tokens"
          run={() => rest.DELETE('/operator/accounts/{name}/tokens', { params: { path: { name } } })}
          done={`All tokens of ${name} are revoked`}
        >
          <Text>Everything that signs in as {name} is signed out: consoles, command lines, agent runtimes.</Text>
        </ConfirmButton>
      </Group>
    </Stack>
  );
}
