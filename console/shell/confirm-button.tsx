/** A button for what cannot be taken back: it says what will happen, and asks once. */
import { Button, type ButtonProps, Group, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import type { ReactNode } from 'react';
import { Dialog } from './dialog.tsx';

interface Asked {
  readonly label: string;
  /** What the button shows where its place says the rest. */
  readonly short?: string;
  readonly title: string;
  /** What will happen. */
  readonly children: ReactNode;
  readonly onConfirm: () => void;
  readonly button?: ButtonProps;
}

export function ConfirmButton({ label, short, title, children, onConfirm, button }: Asked) {
  const [isOpen, { open, close }] = useDisclosure(false);
  return (
    <>
      <Button variant="default" aria-label={label} {...button} onClick={open}>
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
