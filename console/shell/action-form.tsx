/** A form that runs an action instead of loading a page. */
import { type ReactNode, useLayoutEffect, useRef, useState } from 'react';
import type { RefusableAction } from '../rest/use-action.ts';
import { FieldFaults, findFault, readFaults } from './form-fields.tsx';
import { Refusal } from './refusal.tsx';

interface ActionFormProps {
  /** The form shows its refusals: at the fields that they name, otherwise below them. */
  readonly action?: RefusableAction;
  readonly onSubmit: () => void;
  readonly children: ReactNode;
}

export function ActionForm({ action, onSubmit, children }: ActionFormProps) {
  const form = useRef<HTMLFormElement>(null);
  const error = action?.error ?? null;
  const [isAtField, setIsAtField] = useState(false);
  useLayoutEffect(() => {
    const faults = readFaults(error);
    const fields = [...(form.current?.elements ?? [])].filter((element) => element instanceof HTMLElement);
    const faulty = fields.find((field) => findFault(faults, field.getAttribute('name') ?? '') !== null);
    setIsAtField(faulty !== undefined);
    faulty?.focus();
  }, [error]);
  return (
    <form
      ref={form}
      onSubmit={(event) => {
        event.preventDefault();
        // React passes it on to the form around a dialog, although the dialog is elsewhere in the page.
        event.stopPropagation();
        onSubmit();
      }}
    >
      <FieldFaults value={readFaults(error)}>{children}</FieldFaults>
      {action ? <Refusal action={action} isAtField={isAtField} /> : null}
    </form>
  );
}
