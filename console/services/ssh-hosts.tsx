/** The account's own SSH hosts: added, tested, pinned and removed. */
import { Group, Stack, Text } from '@mantine/core';
import type { OwnSshHost, Page, SshTest } from '../../sdk/session/api-types.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { callSessions } from '../rest/session-api.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { DataTable } from '../shell/data-table.tsx';
import { PasswordField, RequiredFields, TextAreaField, TextField } from '../shell/form-fields.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { Section } from '../shell/section.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { bindField, useFields } from '../shell/use-fields.ts';
import { escapeText } from '../style/untrusted-text.ts';

const SSH_PORT = 22;
const HOST_TEXTS = [
  ['id', 'Id', 'By which agents name it, such as web'],
  ['address', 'Address', 'A public host name or IP address'],
  ['port', 'Port', ''],
  ['user', 'User', 'Choose one with few rights'],
] as const;

export function SshHosts() {
  return (
    <Section title="SSH hosts">
      <Stack>
        <Text size="sm" c="dimmed">
          Your agents, and plugins that were granted host.ssh, run commands there. Nothing is sent to a host whose key
          is not pinned.
        </Text>
        <PagedList
          queryKey={['services', 'ssh-hosts']}
          read={(page) => callSessions<Page<OwnSshHost>>('GET', `/ssh-hosts?${new URLSearchParams(page)}`)}
          refreshMs={FOLLOW_MS}
          empty="You have added no SSH host."
        >
          {(hosts) => (
            <DataTable
              label="SSH hosts"
              titles={['Host', 'Address', 'Key', 'Test', 'Actions']}
              rows={hosts.map(describeHost)}
            />
          )}
        </PagedList>
        <Group>
          <AddHost />
        </Group>
      </Stack>
    </Section>
  );
}

const describeHost = (host: OwnSshHost) => ({
  key: host.id,
  cells: [
    `${escapeText(host.name)} (${host.id})`,
    <Monospace key="address">{`${escapeText(host.user)}@${host.address}:${host.port}`}</Monospace>,
    host.hostKeys.length === 0 ? 'none is pinned' : <Monospace key="key">{host.hostKeys.join(' ')}</Monospace>,
    host.testedAt === null
      ? 'not tested'
      : escapeText(host.testFault ?? '') || <Timestamp key="at" at={host.testedAt} />,
    <Group key="do" gap="xs" wrap="nowrap">
      <ActionButton
        aria-label={`Test ${host.id}`}
        run={() => callSessions<SshTest>('POST', `/ssh-hosts/${host.id}/test`)}
        done={({ fault }) =>
          fault === null ? `${host.id} is tested: it works` : `${host.id} is tested: ${escapeText(fault)}`
        }
      >
        Test
      </ActionButton>
      <PinKey host={host} />
      <ConfirmButton
        label={`Remove ${host.id}`}
        short="Remove"
        run={() => callSessions('DELETE', `/ssh-hosts/${host.id}`)}
        done={`${host.id} is removed`}
      >
        <Text>Its login is deleted. Running commands continue.</Text>
      </ConfirmButton>
    </Group>,
  ],
});

function PinKey({ host: { id, login } }: { readonly host: OwnSshHost }) {
  const fields = useFields({ key: '', password: '' });
  const { key, password } = fields.values;
  return (
    <ConfirmButton
      label={`Pin a key of ${id}`}
      short="Pin"
      title={`Pin the key of ${id}`}
      fields={fields}
      run={() =>
        callSessions('PATCH', `/ssh-hosts/${id}`, {
          hostKeys: [key.trim()],
          ...(password === '' ? {} : { password }),
        })
      }
      done={`The key of ${id} is pinned`}
      isHarmless
    >
      <Text size="sm">A test shows the key of the host. Compare it with what ssh-keygen -lf prints there.</Text>
      <TextField label="Key" {...bindField(fields, 'key')} name="hostKeys" placeholder="SHA256:…" required />
      {login === 'password' ? (
        <PasswordField
          label="Password"
          {...bindField(fields, 'password')}
          description="Needed to replace a key that is pinned"
        />
      ) : null}
    </ConfirmButton>
  );
}

function AddHost() {
  const fields = useFields({ id: '', address: '', port: String(SSH_PORT), user: '', privateKey: '', password: '' });
  const { id, address, port, user, privateKey, password } = fields.values;
  const login = { ...(privateKey.trim() === '' ? {} : { privateKey }), ...(password === '' ? {} : { password }) };
  return (
    <ConfirmButton
      label="Add an SSH host"
      title="Add an SSH host"
      fields={fields}
      run={() => callSessions('POST', '/ssh-hosts', { id, name: id, address, port: Number(port), user, ...login })}
      done={`${id} is added: test it and pin its key`}
      isHarmless
    >
      <RequiredFields fields={fields} texts={HOST_TEXTS} />
      <TextAreaField
        label="Private key"
        {...bindField(fields, 'privateKey')}
        description="Without a passphrase; bulkhead ssh takes others. Never shown again."
        rows={4}
      />
      <PasswordField label="Password" {...bindField(fields, 'password')} description="Instead of a private key" />
    </ConfirmButton>
  );
}
