/** Form inputs for the settings and secrets of a plugin. */
import { NativeSelect, PasswordInput, Stack, TextInput } from '@mantine/core';
import type { FieldErrors } from './field-errors.ts';
import type { Fields, FormValues } from './form-values.ts';

interface Form {
  readonly fields: Fields;
  readonly filled: FormValues;
  readonly setFilled: (filled: FormValues) => void;
  /** Secrets that have a value already. */
  readonly secretNames: readonly string[];
  readonly errors?: FieldErrors;
}
type Setting = Fields['settings'][number];

export function FieldInputs({ fields, filled, setFilled, secretNames, errors = {} }: Form) {
  return (
    <Stack>
      {fields.settings.map((field) => (
        <SettingInput
          key={field.name}
          field={field}
          value={filled.settings[field.name] ?? ''}
          error={describeError(field.label, errors[`settings.${field.name}`])}
          onValue={(value) => setFilled({ ...filled, settings: { ...filled.settings, [field.name]: value } })}
        />
      ))}
      {fields.secrets.map(({ name, label, description, required, use }) => {
        const isSet = secretNames.includes(name);
        return (
          <PasswordInput
            key={name}
            label={label}
            description={[description, describeUse(use)].filter(Boolean).join(' ')}
            withAsterisk={required}
            error={describeError(label, errors[`secrets.${name}`])}
            placeholder={isSet ? 'Set. Type to replace it.' : 'Not set'}
            value={filled.secrets[name] ?? ''}
            onChange={(event) =>
              setFilled({ ...filled, secrets: { ...filled.secrets, [name]: event.currentTarget.value } })
            }
            autoComplete="off"
          />
        );
      })}
    </Stack>
  );
}

const HTTP_USE = 'http:';

/** Says whether the plugin can read a secret. */
function describeUse(use: readonly string[] | null): string {
  if (use === null) return 'The plugin can read it.';
  const hosts = use.filter((one) => one.startsWith(HTTP_USE)).map((one) => one.slice(HTTP_USE.length));
  const uses = [
    ...(hosts.length > 0 ? [`sent to ${hosts.join(', ')} only`] : []),
    ...(use.includes('webhooks') ? ['used to check webhook signatures'] : []),
  ];
  return `The plugin never sees it: it is ${uses.join(' and ')}.`;
}

interface Input {
  readonly field: Setting;
  readonly value: string;
  /** Null: nothing is wrong. */
  readonly error: string | null;
  readonly onValue: (value: string) => void;
}

const describeError = (label: string, error: string | undefined): string | null =>
  error === undefined ? null : `${label} ${error}.`;

function SettingInput({ field, value, error, onValue }: Input) {
  const { label, description, required } = field;
  const common = { label, description, withAsterisk: required, value, error };
  if (field.enum === null) {
    return (
      <TextInput
        {...common}
        placeholder={field.default === null ? 'Not set' : `Default: ${field.default}`}
        onChange={(event) => onValue(event.currentTarget.value)}
      />
    );
  }
  const none = field.default === null ? [{ value: '', label: 'Not set' }] : [];
  return (
    <NativeSelect
      {...common}
      data={[...none, ...field.enum.map((option) => ({ value: option, label: option }))]}
      onChange={(event) => onValue(event.currentTarget.value)}
    />
  );
}
