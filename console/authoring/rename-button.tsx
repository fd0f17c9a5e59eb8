/** Renames a plugin without published versions. */
import { useInputState } from '@mantine/hooks';
import { readBody, rest } from '../rest/client.ts';
import type { Plugin } from '../rest/plugins.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { TextField } from '../shell/form-fields.tsx';

export function RenameButton({ plugin }: { readonly plugin: Plugin }) {
  const [displayName, setDisplayName] = useInputState(plugin.displayName);
  const [description, setDescription] = useInputState(plugin.description);
  const params = { path: { id: plugin.id } };
  return (
    <ConfirmButton
      label="Rename"
      title="Name and description"
      run={() => readBody(rest.PATCH('/plugins/{id}', { params, body: { displayName, description } }))}
      done="The plugin is renamed"
      isHarmless
    >
      <TextField
        label="Name"
        name="displayName"
        description="Holds until the first version is published; then its readme.md names the plugin."
        value={displayName}
        onChange={setDisplayName}
      />
      <TextField label="Description" name="description" value={description} onChange={setDescription} />
    </ConfirmButton>
  );
}
