/** The account's own SSH hosts: added, tested, pinned and removed. */
import { Group, Stack, Text } from '@mantine/core';
import { useInputState } from '@mantine/hooks';
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
import { escapeText } from '../style/untrusted-text.ts';

const SSH_PORT = 22;

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
  const [key, setKey] = useInputState('');
  const [password, setPassword] = useInputState('');
  return (
    <ConfirmButton
      label={`Pin a key of ${id}`}
      short="Pin"
      title={`Pin the key of ${id}`}
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
      <TextField label="Key" name="hostKeys" placeholder="SHA256:…" value={key} required onChange={setKey} />
      {login === 'password' ? (
        <PasswordField
          label="Password"
          name="password"
          description="Needed to replace a key that is pinned"
          value={password}
          onChange={setPassword}
        />
      ) : null}
    </ConfirmButton>
  );
}

function AddHost() {
  const [id, setId] = useInputState('');
  const [address, setAddress] = useInputState('');
  const [port, setPort] = useInputState(String(SSH_PORT));
  const [user, setUser] = useInputState('');
  const [privateKey, setPrivateKey] = useInputState('');
  const [password, setPassword] = useInputState('');
  const fields = [
    ['id', 'Id', id, setId, 'By which agents name it, such as web'],
    ['address', 'Address', address, setAddress, 'A public host name or IP address'],
    ['port', 'Port', port, setPort, ''],
    ['user', 'User', user, setUser, 'Choose one with few rights'],
  ] as const;
  const login = { ...(privateKey.trim() === '' ? {} : { privateKey }), ...(password === '' ? {} : { password }) };
  return (
    <ConfirmButton
      label="Add an SSH host"
      title="Add an SSH host"
      run={() => callSessions('POST', '/ssh-hosts', { id, name: id, address, port: Number(port), user, ...login })}
      done={`${id} is added: test it and pin its key`}
      isHarmless
    >
      <RequiredFields fields={fields} />
      <TextAreaField
        label="Private key"
        name="privateKey"
        description="Without a passphrase; bulkhead ssh takes others. Never shown again."
        rows={4}
        value={privateKey}
        onChange={setPrivateKey}
      />
      <PasswordField
        label="Password"
        name="password"
        description="Instead of a private key"
        value={password}
        onChange={setPassword}
      />
    </ConfirmButton>
  );
}
