/** A button that runs a change at the service. */
import { Button, type ButtonProps } from '@mantine/core';
import { useAction } from '../rest/use-action.ts';
import { useReadOnly } from './read-only.ts';

interface ActionButtonProps extends ButtonProps {
  readonly run: () => Promise<unknown>;
  /** Message after success. Default: the page itself shows the result. */
  readonly done?: string;
  readonly 'aria-label'?: string;
}

export function ActionButton({ run, done, ...button }: ActionButtonProps) {
  const { mutate, isPending } = useAction<void, unknown>(run, done);
  if (useReadOnly()) return null;
  return <Button size="xs" variant="default" {...button} loading={isPending} onClick={() => mutate()} />;
}
