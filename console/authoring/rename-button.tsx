/** Renames a plugin without published versions. */
import { readBody, rest } from '../rest/client.ts';
import type { Plugin } from '../rest/plugins.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { TextField } from '../shell/form-fields.tsx';
import { bindField, useFields } from '../shell/use-fields.ts';

export function RenameButton({ plugin }: { readonly plugin: Plugin }) {
  const { displayName, description } = plugin;
  const fields = useFields({ displayName, description });
  const params = { path: { id: plugin.id } };
  return (
    <ConfirmButton
      label="Rename"
      title="Name and description"
      run={() => readBody(rest.PATCH('/plugins/{id}', { params, body: fields.values }))}
      done="The plugin is renamed"
      fields={fields}
      isHarmless
    >
      <TextField
        label="Name"
        {...bindField(fields, 'displayName')}
        description="Holds until the first version is published; then its readme.md names the plugin."
      />
      <TextField label="Description" {...bindField(fields, 'description')} />
    </ConfirmButton>
  );
}
