/** The form for the settings and secrets of an installation. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { FieldInputs } from '../configuration/field-inputs.tsx';
import { createFormValues, saveConfiguration } from '../configuration/form-values.ts';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { useReadOnly } from '../shell/read-only.ts';

export function SettingsForm({ installation }: { readonly installation: Installation }) {
  const { id, configuration, settings, secretNames } = installation;
  const [filled, setFilled] = useState(createFormValues(configuration, settings));
  const save = useAction<void, void>(async () => {
    await saveConfiguration(id, filled, settings);
    setFilled({ ...filled, secrets: {} });
  }, 'Saved');
  const isReadOnly = useReadOnly();
  if (configuration.settings.length + configuration.secrets.length === 0)
    return <Text>This plugin has no settings and no secrets.</Text>;
  return (
    <ActionForm onSubmit={() => save.mutate()}>
      <Stack maw={560}>
        <FieldInputs fields={configuration} filled={filled} setFilled={setFilled} secretNames={secretNames} />
        <Group>
          {isReadOnly ? null : (
            <Button type="submit" loading={save.isPending}>
              Save
            </Button>
          )}
          {secretNames.map((name) => (
            <ForgetSecret key={name} id={id} name={name} />
          ))}
        </Group>
      </Stack>
    </ActionForm>
  );
}

function ForgetSecret({ id, name }: { readonly id: string; readonly name: string }) {
  const body = { secrets: { [name]: null } };
  return (
    <ConfirmButton
      label={`Forget ${name}`}
      title={`Forget the secret ${name}`}
      run={() => rest.POST('/installations/{id}/configure', { params: { path: { id } }, body })}
      done={`${name} is forgotten`}
      button={{ size: 'sm' }}
    >
      <Text>The stored value is removed. If the plugin requires it, the plugin stops until you set a new one.</Text>
    </ConfirmButton>
  );
}
