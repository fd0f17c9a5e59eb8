/** A button that asks for confirmation before an irreversible action. */
import { Button, type ButtonProps, Group, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import type { ReactNode } from 'react';
import { Dialog } from './dialog.tsx';

interface ConfirmButtonProps {
  readonly label: string;
  /** A shorter label for the button itself. */
  readonly short?: string;
  readonly title: string;
  /** The consequences of the action. */
  readonly children: ReactNode;
  readonly onConfirm: () => void;
  readonly button?: ButtonProps;
}

export function ConfirmButton({ label, short, title, children, onConfirm, button }: ConfirmButtonProps) {
  const [isOpen, { open, close }] = useDisclosure(false);
  return (
    <>
      <Button size="xs" variant="default" aria-label={label} {...button} onClick={open}>
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
                onConfirm();
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
