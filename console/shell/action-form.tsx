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
        // React passes it on to the form around a dialog, although the dialog is elsewhere in the page.
        event.stopPropagation();
        onSubmit();
      }}
    >
      {children}
    </form>
  );
}
