/** The values of the fields in a dialog. */
import { type ChangeEvent, useState } from 'react';

interface BoundField {
  readonly name: string;
  readonly value: string;
  readonly onChange: (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) => void;
}

export interface Fields<Values> {
  readonly values: Values;
  /** Whether a field has another value than its initial one. */
  readonly isChanged: boolean;
  change(changed: Partial<Values>): void;
  /** Returns all fields to their initial values. */
  reset(): void;
}

/** @param initial shown in the fields that the user has not changed */
export function useFields<Values extends object>(initial: Values): Fields<Values> {
  const [typed, setTyped] = useState<Partial<Values>>({});
  const values = { ...initial, ...typed };
  return {
    values,
    isChanged: JSON.stringify(values) !== JSON.stringify(initial),
    change: (changed) => setTyped((before) => ({ ...before, ...changed })),
    reset: () => setTyped({}),
  };
}

/** Returns the properties of a text input. @param name the field, as the request names it */
export const bindField = <Name extends string>(
  { values, change }: Fields<Readonly<Record<Name, string>>>,
  name: Name,
): BoundField => ({
  name,
  value: values[name],
  onChange: ({ currentTarget }) => change({ [name]: currentTarget.value } as Record<Name, string>),
});
