/** Form inputs for the settings and secrets of a plugin. */
import { Stack, Text } from '@mantine/core';
import { MASKED_MIN_CHARS } from '../../sdk/contract/limits.ts';
import { SelectField } from '../shell/form-fields.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import {
  changeSetting,
  type Fields,
  type FormValues,
  findConflict,
  findValue,
  readSetting,
  type StoredValues,
} from './form-values.ts';
import { SecretInput, SettingTextInput } from './text-inputs.tsx';

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
          savedElsewhere={findConflict(field.name, filled, stored)}
          onValue={(value) => setFilled(changeSetting(filled, stored, field.name, value))}
        />
      ))}
      {fields.secrets.map(({ name, label, description, required, use }) => {
        const isSet = stored.secretNames.includes(name);
        const value = findValue(filled.secrets, name);
        return (
          <SecretInput
            key={name}
            name={`secrets.${name}`}
            label={label}
            description={<SecretDescription use={use} description={description} value={value ?? ''} />}
            withAsterisk={required}
            aria-required={required}
            placeholder={isSet ? 'Set. Type to replace it.' : 'Not set'}
            value={value}
            onValue={(typed) => setFilled({ ...filled, secrets: { ...filled.secrets, [name]: typed } })}
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
  /** What another page has saved since the user began to change the value. Null: nothing. */
  readonly savedElsewhere: string | null;
  readonly onValue: (value: string) => void;
}

function SettingInput({ field, value, savedElsewhere, onValue }: Input) {
  const { label, description, required } = field;
  const common = {
    name: `settings.${field.name}`,
    label,
    description:
      savedElsewhere === null && !description ? null : (
        <>
          {savedElsewhere === null ? null : <SavedElsewhere value={savedElsewhere} />}
          <AuthorText text={description} />
        </>
      ),
    // Not `required`: the browser would refuse an installation whose settings the user fills in later.
    'aria-required': required,
    withAsterisk: required,
    value,
  };
  if (field.enum === null) {
    return (
      <SettingTextInput
        {...common}
        placeholder={field.default ? `Default: ${field.default}` : 'Not set'}
        onValue={onValue}
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

interface SecretDescriptionProps {
  readonly use: readonly string[] | null;
  readonly description: string | null;
  /** What was typed; empty: nothing. */
  readonly value: string;
}

/** The console's own sentence stands first and apart: the author's text could imitate or contradict it. */
function SecretDescription({ use, description, value }: SecretDescriptionProps) {
  return (
    <>
      <Text span inherit fw={600} display="block">
        {describeUse(use)}
      </Text>
      {value !== '' && value.trim().length < MASKED_MIN_CHARS ? (
        <Text span inherit display="block">
          {`A value shorter than ${MASKED_MIN_CHARS} characters is not masked in what the plugin writes, such as its log.`}
        </Text>
      ) : null}
      <AuthorText text={description} />
    </>
  );
}

const AuthorText = ({ text }: { readonly text: string | null }) =>
  text ? (
    <Text span inherit display="block" className="foreign">
      {escapeText(text)}
    </Text>
  ) : null;

function SavedElsewhere({ value }: { readonly value: string }) {
  return (
    <Text span inherit fw={600} display="block" role="status" className="foreign">
      {value === '' ? 'Its value was removed elsewhere meanwhile.' : `Saved elsewhere meanwhile: ${escapeText(value)}.`}{' '}
      If you save, yours replaces it.
    </Text>
  );
}
