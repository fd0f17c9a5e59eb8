/** Asks before the user leaves the page with unsaved changes. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Dialog } from './dialog.tsx';

interface UnsavedGuardProps {
  readonly isUnsaved: boolean;
  /** Keeps the changes in this browser. False, and the default: they would be lost with the page. */
  readonly keep?: () => boolean;
  /** What happens to the changes. */
  readonly children: ReactNode;
}

export function UnsavedGuard({ isUnsaved, keep = () => false, children }: UnsavedGuardProps) {
  const { status, proceed, reset } = useBlocker({
    // A tab of the page is no other page.
    shouldBlockFn: ({ current, next }) => isUnsaved && current.pathname !== next.pathname,
    // The browser's own question, only if the text would be lost.
    enableBeforeUnload: () => isUnsaved && !keep(),
    withResolver: true,
  });
  return (
    <Dialog title="Unsaved changes" opened={status === 'blocked'} onClose={() => reset?.()}>
      <Stack>
        <Text>{children}</Text>
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
