/** Shows inside a form or a dialog why an action was refused. A notification could cover the button to try again. */
import { Alert } from '@mantine/core';
import { createContext, useContext, useLayoutEffect } from 'react';
import { createPortal } from 'react-dom';
import { getErrorMessage } from '../rest/problem.ts';
import type { RefusableAction } from '../rest/use-action.ts';

interface RefusalProps {
  readonly action: RefusableAction;
  /** Whether a field shows it. */
  readonly isAtField?: boolean;
}

export function Refusal({ action: { error, isErrorShown }, isAtField = false }: RefusalProps) {
  useLayoutEffect(() => {
    isErrorShown.current = true;
    return () => {
      isErrorShown.current = false;
    };
  }, [isErrorShown]);
  if (error === null || isAtField) return null;
  return (
    <Alert color="red" variant="light" role="alert" mt="md" className="foreign" ref={scrollIntoView}>
      {getErrorMessage(error)}
    </Alert>
  );
}

const scrollIntoView = (alert: HTMLElement | null): void => alert?.scrollIntoView({ block: 'nearest' });

/** Where the open dialog shows the refusals of its buttons. Null: outside dialogs. */
export const RefusalPlace = createContext<HTMLElement | null>(null);

/** Shows the refusal of a button at the end of the dialog that it is in. */
export function DialogRefusal({ action }: { readonly action: RefusableAction }) {
  const place = useContext(RefusalPlace);
  return place === null ? null : createPortal(<Refusal action={action} />, place);
}
