/** Buttons that list, delist and delete a plugin. */
import { Button, Group, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { rest } from '../rest/client.ts';
import { useAction } from '../rest/use-action.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import type { Plugin } from './plugin-page.tsx';

export function ListingButtons({ plugin }: { readonly plugin: Plugin }) {
  const [deprecationMessage, setMessage] = useState('');
  const navigate = useNavigate();
  const target = { params: { path: { id: plugin.id } } };
  const list = useAction<void, unknown>(
    () => rest.POST('/plugins/{id}/listing', target),
    'The plugin is in the catalog',
  );
  const delist = useAction<void, unknown>(
    () => rest.DELETE('/plugins/{id}/listing', { ...target, body: { deprecationMessage } }),
    'The plugin is no longer in the catalog',
  );
  const remove = useAction<void, unknown>(async () => {
    await rest.DELETE('/plugins/{id}', target);
    await navigate({ to: '/plugins' });
  }, 'The plugin is deleted');
  return (
    <Group gap="xs">
      {plugin.visibility === 'listed' ? (
        <ConfirmButton
          label="Take out of the catalog"
          title={`Take ${escapeText(plugin.displayName)} out of the catalog`}
          onConfirm={() => delist.mutate()}
        >
          <Text>Users can no longer find it. Installations keep working and show your message.</Text>
          <TextInput
            label="Message to its users"
            placeholder="Use the plugin … instead"
            value={deprecationMessage}
            onChange={(event) => setMessage(event.currentTarget.value)}
          />
        </ConfirmButton>
      ) : (
        <Button size="xs" loading={list.isPending} onClick={() => list.mutate()}>
          List in the catalog
        </Button>
      )}
      <ConfirmButton
        label="Delete"
        title={`Delete ${escapeText(plugin.displayName)}`}
        onConfirm={() => remove.mutate()}
      >
        <Text>The plugin is removed permanently. Yank all published versions first.</Text>
      </ConfirmButton>
    </Group>
  );
}
