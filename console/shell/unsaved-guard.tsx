/** Asks before the user leaves the page with unsaved changes. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
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
  return (
    <Dialog title="Unsaved changes" opened={status === 'blocked'} onClose={() => reset?.()}>
      <Stack>
        <Text>{isKept ? kept : children}</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={() => reset?.()} data-autofocus>
            Stay
          </Button>
          <Button onClick={() => proceed?.()}>Leave without saving</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
