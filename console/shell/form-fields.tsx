/** Fields of a form that show what the service does not accept in them. */
import {
  NativeSelect,
  type NativeSelectProps,
  PasswordInput,
  type PasswordInputProps,
  Textarea,
  type TextareaProps,
  TextInput,
  type TextInputProps,
} from '@mantine/core';
import { createContext, useContext } from 'react';
import { Problem } from '../rest/problem.ts';
import { bindField, type Fields } from './use-fields.ts';

interface Fault {
  /** Its name in the request, such as `hostKeys.0`. */
  readonly field: string;
  readonly message: string;
}

/** Values that the console does not send, because they cannot be right. */
export class FieldFaultError extends Error {
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    super(faults.map(({ message }) => message).join(' '));
    this.faults = faults;
  }
}

/** The faults of the form around a field. */
export const FieldFaults = createContext<readonly Fault[]>([]);

export function readFaults(error: Error | null): readonly Fault[] {
  if (error instanceof FieldFaultError) return error.faults;
  const places = error instanceof Problem ? (error.body.errors ?? []) : [];
  return places.flatMap(({ field, message }) => (field === undefined ? [] : [{ field, message }]));
}

/** Finds the first fault of a field, or of a part of it. */
export const findFault = (faults: readonly Fault[], name: string): Fault | null =>
  faults.find(({ field }) => name !== '' && (field === name || field.startsWith(`${name}.`))) ?? null;

/** Returns the sentence to show at a field, or null. @param name its name in the request */
export function useFieldError(name: string, label: string): string | null {
  const fault = findFault(useContext(FieldFaults), name);
  if (fault === null) return null;
  const sentence = fault.message.endsWith('.') ? fault.message : `${fault.message}.`;
  // A message in lower case begins with the verb, so the label is its subject. A position in a list is left out.
  if (!/^\p{Ll}/u.test(sentence)) return sentence;
  const part = fault.field.slice(name.length + 1);
  return /^\d*$/.test(part) ? `${label} ${sentence}` : `${label}: ${part} ${sentence}`;
}

interface Named {
  readonly name: string;
  readonly label: string;
}

export const TextField = (props: TextInputProps & Named) => (
  <TextInput {...props} error={useFieldError(props.name, props.label)} />
);

interface RequiredFieldsProps<Name extends string> {
  readonly fields: Fields<Readonly<Record<Name, string>>>;
  /** For each field: its name in the request, its label and its description. */
  readonly texts: readonly (readonly [Name, string, string])[];
}

export const RequiredFields = <Name extends string>({ fields, texts }: RequiredFieldsProps<Name>) =>
  texts.map(([name, label, description]) => (
    <TextField key={name} {...bindField(fields, name)} label={label} description={description} required />
  ));

export const TextAreaField = (props: TextareaProps & Named) => (
  <Textarea {...props} error={useFieldError(props.name, props.label)} />
);

export const SelectField = (props: NativeSelectProps & Named) => (
  <NativeSelect {...props} error={useFieldError(props.name, props.label)} />
);

export const PasswordField = (props: PasswordInputProps & Named) => (
  <PasswordInput
    // Otherwise browsers offer saved passwords, also the token that signs in here. They ignore "off".
    autoComplete="new-password"
    visibilityToggleFocusable
    visibilityToggleButtonProps={{ 'aria-label': `Reveal ${props.label}` }}
    {...props}
    error={useFieldError(props.name, props.label)}
  />
);
