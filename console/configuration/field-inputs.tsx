/** Form inputs for the settings and secrets of a plugin. */
import { Stack } from '@mantine/core';
import { PasswordField, SelectField, TextField } from '../shell/form-fields.tsx';
import { type Fields, type FormValues, readSetting, type StoredValues } from './form-values.ts';

interface Form {
  readonly fields: Fields;
  readonly filled: FormValues;
  readonly setFilled: (filled: FormValues) => void;
  readonly stored: StoredValues;
}
type Setting = Fields['settings'][number];

export function FieldInputs({ fields, filled, setFilled, stored }: Form) {
  return (
    <Stack>
      {fields.settings.map((field) => (
        <SettingInput
          key={field.name}
          field={field}
          value={readSetting(field, filled, stored)}
          onValue={(value) => setFilled({ ...filled, settings: { ...filled.settings, [field.name]: value } })}
        />
      ))}
      {fields.secrets.map(({ name, label, description, required, use }) => {
        const isSet = stored.secretNames.includes(name);
        return (
          <PasswordField
            key={name}
            name={`secrets.${name}`}
            label={label}
            description={[description, describeUse(use)].filter(Boolean).join(' ')}
            withAsterisk={required}
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
  readonly onValue: (value: string) => void;
}

function SettingInput({ field, value, onValue }: Input) {
  const { label, description, required } = field;
  const common = { name: `settings.${field.name}`, label, description, withAsterisk: required, value };
  if (field.enum === null) {
    return (
      <TextField
        {...common}
        placeholder={field.default === null ? 'Not set' : `Default: ${field.default}`}
        onChange={(event) => onValue(event.currentTarget.value)}
      />
    );
  }
  const none = field.default === null ? [{ value: '', label: 'Not set' }] : [];
  return (
    <SelectField
      {...common}
      data={[...none, ...field.enum.map((option) => ({ value: option, label: option }))]}
      onChange={(event) => onValue(event.currentTarget.value)}
    />
  );
}
