/** A form that runs an action instead of loading a page. */
import type { ReactNode } from 'react';

interface ActionFormProps {
  readonly onSubmit: () => void;
  readonly children: ReactNode;
}

export function ActionForm({ onSubmit, children }: ActionFormProps) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {children}
    </form>
  );
}
