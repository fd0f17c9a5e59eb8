/** Nobody loses what they typed by a link: it asks first. */
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
    <Dialog title="What you wrote is not saved" opened={status === 'blocked'} onClose={() => reset?.()}>
      <Stack>
        <Text>Whoever leaves this page now loses it. Save it as draft to keep it.</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={() => reset?.()}>
            Stay
          </Button>
          <Button color="red" onClick={() => proceed?.()}>
            Leave without it
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
