/** Services that may act for the account, and what was done in its name. */
import { Checkbox, Group, Stack, Text } from '@mantine/core';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { RequiredFields, useFieldError } from '../shell/form-fields.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { Section } from '../shell/section.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { useFields } from '../shell/use-fields.ts';
import { escapeText } from '../style/untrusted-text.ts';

type Delegation = components['schemas']['Delegation'];
type AccountAction = components['schemas']['AccountAction'];
type Scope = 'sessions:read' | 'sessions:write' | 'account:read';

const SCOPES: readonly (readonly [Scope, string])[] = [
  ['sessions:read', 'Read sessions, transcripts and tools'],
  ['sessions:write', 'Run agents: everything in the session API but logins of SSH hosts and the inspector'],
  ['account:read', 'Read this account: plugins, installations, logs'],
];
const SERVICE_TEXTS = [
  ['name', 'Name', 'For you, such as Helpdesk'],
  ['issuer', 'Issuer', 'Address of its identity provider'],
  ['subject', 'Subject', 'The claim sub of its tokens'],
] as const;
const KEY = ['me', 'delegations'];

export function Delegations() {
  return (
    <>
      <Section title="Services that act for you">
        <Stack>
          <Text size="sm" c="dimmed">
            A service exchanges a token of its identity provider for one of yours, within these limits.
          </Text>
          <PagedList
            queryKey={KEY}
            read={(page) => readBody(rest.GET('/me/delegations', { params: { query: page } }))}
            empty="No service may act for you."
          >
            {(delegations) => <DelegationTable delegations={delegations} />}
          </PagedList>
          <Group>
            <AllowService />
          </Group>
        </Stack>
      </Section>
      <Section title="Changes of SSH hosts and services">
        <PagedList
          queryKey={['me', 'actions']}
          read={(page) => readBody(rest.GET('/me/actions', { params: { query: page } }))}
          empty="Nothing in the last 90 days: no SSH host was changed, and no service acted for you."
        >
          {(actions) => <ActionTable actions={actions} />}
        </PagedList>
      </Section>
    </>
  );
}

function DelegationTable({ delegations }: { readonly delegations: readonly Delegation[] }) {
  const rows = delegations.map((delegation) => ({
    key: delegation.id,
    cells: [
      escapeText(delegation.name),
      `${escapeText(delegation.subject)} of ${escapeText(delegation.issuer)}${delegation.isIssuerConfigured ? '' : ' (the operator has not configured this issuer)'}`,
      delegation.scopes.join(', '),
      delegation.lastUsedAt === null ? 'never' : <Timestamp key="used" at={delegation.lastUsedAt} />,
      <EndService key="end" delegation={delegation} />,
    ],
  }));
  return (
    <DataTable
      label="Services that act for you"
      titles={['Name', 'Service', 'May', 'Last used', 'Actions']}
      rows={rows}
    />
  );
}

function ActionTable({ actions }: { readonly actions: readonly AccountAction[] }) {
  const rows = actions.map(({ id, at, action, subject, detail, actor }) => ({
    key: id,
    cells: [
      <Timestamp key="at" at={at} />,
      action,
      escapeText(subject),
      escapeText(detail ?? ''),
      actor === null ? 'you' : escapeText(actor),
    ],
  }));
  return (
    <DataTable
      label="Changes of SSH hosts and services"
      titles={['When', 'What', 'To what', 'Detail', 'By']}
      rows={rows}
    />
  );
}

function AllowService() {
  const fields = useFields({ name: '', issuer: '', subject: '', scopes: [] as readonly Scope[] });
  const { name, issuer, subject, scopes } = fields.values;
  return (
    <ConfirmButton
      label="Allow a service"
      title="Allow a service to act for you"
      fields={fields}
      run={() => rest.POST('/me/delegations', { body: { name, issuer, subject, scopes: [...scopes] } })}
      done={`${name} may act for you`}
      isHarmless
    >
      <RequiredFields fields={fields} texts={SERVICE_TEXTS} />
      <Scopes scopes={scopes} onScopes={(chosen) => fields.change({ scopes: chosen })} />
    </ConfirmButton>
  );
}

interface ScopesProps {
  readonly scopes: readonly Scope[];
  readonly onScopes: (scopes: readonly Scope[]) => void;
}

function Scopes({ scopes, onScopes }: ScopesProps) {
  return (
    <Checkbox.Group
      label="It may"
      error={useFieldError('scopes', 'It may')}
      value={[...scopes]}
      onChange={(chosen) => onScopes(chosen as Scope[])}
    >
      <Stack gap="xs">
        {SCOPES.map(([scope, text]) => (
          <Checkbox key={scope} name="scopes" value={scope} label={text} />
        ))}
      </Stack>
    </Checkbox.Group>
  );
}

function EndService({ delegation: { id, name } }: { readonly delegation: Delegation }) {
  return (
    <ConfirmButton
      label={`Remove ${escapeText(name)}`}
      short="Remove"
      run={() => rest.DELETE('/me/delegations/{id}', { params: { path: { id } } })}
      done={`${name} may no longer act for you`}
    >
      <Text>Its tokens are refused at once.</Text>
    </ConfirmButton>
  );
}
