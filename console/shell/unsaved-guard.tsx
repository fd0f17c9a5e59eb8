/** Asks before the user loses unsaved changes with the page. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import { Dialog } from './dialog.tsx';

interface UnsavedGuardProps {
  readonly isUnsaved: boolean;
  /** Keeps the changes in this browser. False, and the default: they would be lost with the page. */
  readonly keep?: () => boolean;
  /** What happens to the changes if they are kept. */
  readonly kept?: ReactNode;
  /** What happens to the changes otherwise. */
  readonly children: ReactNode;
}

export function UnsavedGuard({ isUnsaved, keep = () => false, kept, children }: UnsavedGuardProps) {
  const [isKept, setIsKept] = useState(false);
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: ({ current, next }) => {
      // A tab of the page is no other page.
      if (!isUnsaved || current.pathname === next.pathname) return false;
      setIsKept(keep());
      return true;
    },
    // The browser's own question, only if the text would be lost.
    enableBeforeUnload: () => isUnsaved && !keep(),
    withResolver: true,
  });
  // A save that was under way has succeeded: nothing is left to ask, and what it says is on this page.
  useEffect(() => {
    if (!isUnsaved) reset?.();
  }, [isUnsaved, reset]);
  return (
    <UnsavedDialog
      isOpen={status === 'blocked'}
      onStay={() => reset?.()}
      leave="Leave without saving"
      onLeave={() => proceed?.()}
    >
      {isKept ? kept : children}
    </UnsavedDialog>
  );
}

/** Whether the page has unsaved changes that would be lost with it. Asks its guards as the browser does before it closes a page. */
export const isTextLost = (): boolean => !dispatchEvent(new Event('beforeunload', { cancelable: true }));

interface UnsavedDialogProps {
  readonly isOpen: boolean;
  readonly onStay: () => void;
  /** The label of the button that loses the changes. */
  readonly leave: string;
  readonly onLeave: () => void;
  readonly children: ReactNode;
}

export function UnsavedDialog({ isOpen, onStay, leave, onLeave, children }: UnsavedDialogProps) {
  return (
    <Dialog title="Unsaved changes" opened={isOpen} onClose={onStay}>
      <Stack>
        <Text>{children}</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onStay} data-autofocus>
            Stay
          </Button>
          <Button onClick={onLeave}>{leave}</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
