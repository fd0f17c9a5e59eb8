/** Buttons that list, delist and delete a plugin. */
import { Group, Text } from '@mantine/core';
import { rest } from '../rest/client.ts';
import { countPublished, type Plugin } from '../rest/plugins.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { TextField } from '../shell/form-fields.tsx';
import { bindField, useFields } from '../shell/use-fields.ts';
import { useLeaving } from '../shell/use-leaving.ts';
import { escapeText } from '../style/untrusted-text.ts';

export function ListingButtons({ plugin }: { readonly plugin: Plugin }) {
  const fields = useFields({ deprecationMessage: '' });
  const startLeaving = useLeaving();
  const target = { params: { path: { id: plugin.id } } };
  const remove = async () => {
    const leaveTo = startLeaving();
    await rest.DELETE('/plugins/{id}', target);
    await leaveTo({ to: '/plugins' });
  };
  return (
    <Group gap="xs">
      {plugin.visibility === 'listed' ? (
        <ConfirmButton
          label="Take out of the catalog"
          title={`Take ${escapeText(plugin.displayName)} out of the catalog`}
          run={() => rest.DELETE('/plugins/{id}/listing', { ...target, body: fields.values })}
          done="The plugin is no longer in the catalog"
          fields={fields}
        >
          <Text>Users can no longer find it. Installations keep working and show your message.</Text>
          <TextField
            label="Message to its users"
            {...bindField(fields, 'deprecationMessage')}
            placeholder="Use the plugin … instead"
          />
        </ConfirmButton>
      ) : (
        <ActionButton
          variant="filled"
          run={() => rest.POST('/plugins/{id}/listing', target)}
          done="The plugin is in the catalog"
        >
          List in the catalog
        </ActionButton>
      )}
      {countPublished(plugin) > 0 ? null : (
        <ConfirmButton
          label="Delete"
          title={`Delete ${escapeText(plugin.displayName)}`}
          run={remove}
          done="The plugin is deleted"
        >
          <Text>
            The plugin and its draft are removed permanently. Once a version is published, this is not possible.
          </Text>
        </ConfirmButton>
      )}
    </Group>
  );
}
