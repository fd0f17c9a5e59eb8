/** Removes an agent after confirmation. */
import { Text } from '@mantine/core';
import { rest } from '../rest/client.ts';
import type { components } from '../rest/schema.d.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { escapeText } from '../style/untrusted-text.ts';

type Agent = Pick<components['schemas']['Agent'], 'id' | 'name' | 'slug'>;

export function RemoveAgent({ agent: { id, name, slug } }: { readonly agent: Agent }) {
  return (
    <ConfirmButton
      label="Remove"
      title={`Remove ${escapeText(name)}`}
      run={() => rest.DELETE('/agents/{id}', { params: { path: { id } } })}
      done="The agent is removed"
    >
      <Text>
        The agent and all its sessions are removed permanently. {slug ?? 'Its plugin'} may create another one; uninstall
        the plugin to prevent that.
      </Text>
    </ConfirmButton>
  );
}
