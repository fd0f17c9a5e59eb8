/** Asks before the user leaves the page with unsaved changes. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { Dialog } from '../shell/dialog.tsx';

interface UnsavedGuardProps {
  readonly isUnsaved: boolean;
  /** Keeps the changes in this browser. False: they would be lost with the page. */
  readonly keep: () => boolean;
}

export function UnsavedGuard({ isUnsaved, keep }: UnsavedGuardProps) {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: () => isUnsaved,
    // The browser's own question, only if the text would be lost.
    enableBeforeUnload: () => isUnsaved && !keep(),
    withResolver: true,
  });
  return (
    <Dialog title="Unsaved changes" opened={status === 'blocked'} onClose={() => reset?.()}>
      <Stack>
        <Text>
          Your changes are not in the draft. This browser keeps them and offers them when you open this page again. To
          run them, stay and save them as a draft.
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={() => reset?.()} data-autofocus>
            Stay
          </Button>
          <Button color="red" onClick={() => proceed?.()}>
            Leave without saving
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
