/** The form for the settings and secrets of an installation. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { requireValues } from '../configuration/field-errors.ts';
import { FieldInputs } from '../configuration/field-inputs.tsx';
import { type FormValues, pickFields, rebase, UNCHANGED } from '../configuration/form-values.ts';
import { isForOtherVersion, saveConfiguration } from '../configuration/save-configuration.ts';
import { readBody, rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { queryClient } from '../rest/query-client.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { useReadOnly } from '../shell/read-only.ts';
import { escapeText } from '../style/untrusted-text.ts';
import { enterValues, type TypedValues } from './typed-values.ts';

interface SettingsFormProps {
  readonly installation: Installation;
  readonly typed: TypedValues;
}

export function SettingsForm({ installation, typed }: SettingsFormProps) {
  const { filled, enteredFor, setEntered, failure, setFailure } = typed;
  const { id, configuration, secretNames, currentVersionId } = installation;
  const change = (values: FormValues) => setEntered((before) => enterValues(before, values, currentVersionId));
  const save = useAction(async (values: FormValues) => {
    requireValues(configuration, values, installation);
    const target = { ...installation, versionId: enteredFor ?? currentVersionId };
    const saved = await saveConfiguration(target, pickFields(configuration, values)).catch(async (error: unknown) => {
      if (!isForOtherVersion(error)) throw error;
      // The user, who has read which version runs, may send the values to it, but not to one that runs later.
      const now = await readBody(rest.GET('/installations/{id}', { params: { path: { id } } })).catch(() => null);
      if (now !== null) setEntered((before) => ({ ...before, enteredFor: now.currentVersionId }));
      throw error;
    });
    setFailure(null);
    if (saved !== null) queryClient.setQueryData(['installations', id], saved);
    // What the user typed while it was saved is kept.
    setEntered((now) => ({
      ...now,
      filled: now.filled === values ? UNCHANGED : rebase(now.filled, saved ?? installation),
    }));
  }, 'Saved');
  const isReadOnly = useReadOnly();
  if (configuration.settings.length + configuration.secrets.length === 0)
    return <Text>This plugin has no settings and no secrets.</Text>;
  return (
    <ActionForm action={save} onSubmit={() => save.mutate(filled)}>
      <Stack maw={560}>
        {failure === null ? null : (
          <Alert color="yellow" role="alert" title="Not saved yet" className="foreign">
            {escapeText(failure)} What you entered is below. Save it.
          </Alert>
        )}
        <FieldInputs fields={configuration} filled={filled} setFilled={change} stored={installation} />
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
