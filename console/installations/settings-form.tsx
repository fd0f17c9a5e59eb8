/** The form for the settings and secrets of an installation. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useRef, useState } from 'react';
import { findMissing, readFieldErrors } from '../configuration/field-errors.ts';
import { FieldInputs } from '../configuration/field-inputs.tsx';
import { createFormValues } from '../configuration/form-values.ts';
import { saveConfiguration } from '../configuration/save-configuration.ts';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { useReadOnly } from '../shell/read-only.ts';

/** Some inputs carry the mark themselves, some are inside the element that does. */
const FAULTY_INPUT = ':is(input, select):is([aria-invalid=true], [aria-invalid=true] *, [data-error] *)';

export function SettingsForm({ installation }: { readonly installation: Installation }) {
  const { id, configuration, settings, secretNames } = installation;
  const [filled, setFilled] = useState(createFormValues(configuration, settings));
  const form = useRef<HTMLDivElement>(null);
  const [isChecked, setIsChecked] = useState(false);
  const save = useAction<void, void>(async () => {
    await saveConfiguration({ id, fields: configuration, stored: settings }, filled);
    setFilled({ ...filled, secrets: {} });
  }, 'Saved');
  const missing = findMissing(configuration, filled, secretNames);
  const errors = { ...readFieldErrors(save.error), ...(isChecked ? missing : {}) };
  const submit = () => {
    setIsChecked(true);
    if (Object.keys(missing).length === 0) save.mutate();
    // After the fields are marked.
    else requestAnimationFrame(() => form.current?.querySelector<HTMLElement>(FAULTY_INPUT)?.focus());
  };
  const isReadOnly = useReadOnly();
  if (configuration.settings.length + configuration.secrets.length === 0)
    return <Text>This plugin has no settings and no secrets.</Text>;
  return (
    <ActionForm onSubmit={submit}>
      <Stack maw={560} ref={form}>
        <FieldInputs
          fields={configuration}
          filled={filled}
          setFilled={setFilled}
          secretNames={secretNames}
          errors={errors}
        />
        <Group>
          {isReadOnly ? null : (
            <Button type="submit" loading={save.isPending}>
              Save
            </Button>
          )}
          {secretNames.map((name) => (
            <ForgetSecret key={name} id={id} name={name} label={findSecretLabel(configuration, name)} />
          ))}
        </Group>
      </Stack>
    </ActionForm>
  );
}

const findSecretLabel = ({ secrets }: Installation['configuration'], name: string): string =>
  secrets.find((secret) => secret.name === name)?.label ?? name;

interface ForgetSecretProps {
  readonly id: string;
  readonly name: string;
  readonly label: string;
}

function ForgetSecret({ id, name, label }: ForgetSecretProps) {
  const body = { secrets: { [name]: null } };
  return (
    <ConfirmButton
      label={`Forget ${label}`}
      title={`Forget the secret ${label}`}
      run={() => rest.POST('/installations/{id}/configure', { params: { path: { id } }, body })}
      done={`${label} is forgotten`}
      button={{ size: 'sm' }}
    >
      <Text>The stored value is removed. If the plugin requires it, the plugin stops until you set a new one.</Text>
    </ConfirmButton>
  );
}
