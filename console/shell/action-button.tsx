/** A button that runs a change at the service. */
import { Button, type ButtonProps } from '@mantine/core';
import { useAction } from '../rest/use-action.ts';
import { useReadOnly } from './read-only.ts';
import { DialogRefusal } from './refusal.tsx';

interface ActionButtonProps<Output> extends ButtonProps {
  readonly run: () => Promise<Output>;
  /** Message after success. Default: the page itself shows the result. */
  readonly done?: string | ((output: Output) => string);
  readonly 'aria-label'?: string;
}

export function ActionButton<Output>({ run, done, ...button }: ActionButtonProps<Output>) {
  const action = useAction<void, Output>(run, done);
  if (useReadOnly()) return null;
  return (
    <>
      <Button size="xs" variant="default" {...button} loading={action.isPending} onClick={() => action.mutate()} />
      <DialogRefusal action={action} />
    </>
  );
}
