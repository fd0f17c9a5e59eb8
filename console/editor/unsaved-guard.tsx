/** Asks before the user leaves the page with unsaved changes. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { Dialog } from '../shell/dialog.tsx';

export function UnsavedGuard({ isUnsaved }: { readonly isUnsaved: boolean }) {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: () => isUnsaved,
    enableBeforeUnload: () => isUnsaved,
    withResolver: true,
  });
  return (
    <Dialog title="Unsaved changes" opened={status === 'blocked'} onClose={() => reset?.()}>
      <Stack>
        <Text>Your changes are lost if you leave this page. To keep them, stay and save them as a draft.</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={() => reset?.()}>
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
