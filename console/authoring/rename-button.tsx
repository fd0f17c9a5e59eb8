/** Renames a plugin without published versions. */
import { TextInput } from '@mantine/core';
import { useState } from 'react';
import { readBody, rest } from '../rest/client.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import type { Plugin } from './plugin-page.tsx';

export function RenameButton({ plugin }: { readonly plugin: Plugin }) {
  const [displayName, setDisplayName] = useState(plugin.displayName);
  const [description, setDescription] = useState(plugin.description);
  const params = { path: { id: plugin.id } };
  return (
    <ConfirmButton
      label="Rename"
      title="Name and description"
      run={() => readBody(rest.PATCH('/plugins/{id}', { params, body: { displayName, description } }))}
      done="The plugin is renamed"
    >
      <TextInput
        label="Name"
        description="Holds until the first version is published; then its readme.md names the plugin."
        value={displayName}
        onChange={(event) => setDisplayName(event.currentTarget.value)}
      />
      <TextInput
        label="Description"
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
    </ConfirmButton>
  );
}
