/** A button that asks for confirmation before it runs an irreversible change. */
import { Button, type ButtonProps, Group, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import type { ReactNode } from 'react';
import { useAction } from '../rest/use-action.ts';
import { Dialog } from './dialog.tsx';

interface ConfirmButtonProps {
  readonly label: string;
  /** A shorter label for the button itself. */
  readonly short?: string;
  readonly title: string;
  /** The consequences of the action. */
  readonly children: ReactNode;
  readonly run: () => Promise<unknown>;
  /** Message after success. */
  readonly done: string;
  readonly button?: ButtonProps;
}

export function ConfirmButton({ label, short, title, children, run, done, button }: ConfirmButtonProps) {
  const { mutate, isPending } = useAction<void, unknown>(run, done);
  const [isOpen, { open, close }] = useDisclosure(false);
  return (
    <>
      <Button size="xs" variant="default" aria-label={label} {...button} loading={isPending} onClick={open}>
        {short ?? label}
      </Button>
      <Dialog title={title} opened={isOpen} onClose={close}>
        <Stack>
          {children}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button
              color="red"
              onClick={() => {
                close();
                mutate();
              }}
            >
              {label}
            </Button>
          </Group>
        </Stack>
      </Dialog>
    </>
  );
}
