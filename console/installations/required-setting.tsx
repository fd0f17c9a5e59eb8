/** Changes whether an installation is required. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { useReadOnly } from '../shell/read-only.ts';
import { RequiredCheckbox } from './required-checkbox.tsx';

/** Asks before the plugin is no longer required, as a pause does: messages and turns may continue without its checks then. */
export function RequiredSetting({ installation: { id, required } }: { readonly installation: Installation }) {
  const [isAsking, { open: ask, close }] = useDisclosure(false);
  const save = useAction(async (wanted: boolean) => {
    await rest.PATCH('/installations/{id}', { params: { path: { id } }, body: { required: wanted } });
    close();
  }, 'Saved');
  return (
    <>
      <RequiredCheckbox
        required={save.isPending ? save.variables : required}
        disabled={useReadOnly()}
        onChange={(wanted) => {
          // Not `disabled` meanwhile, which would take the focus away from the checkbox.
          if (save.isPending) return;
          if (wanted) return save.mutate(true);
          save.reset();
          ask();
        }}
      />
      <Dialog title="Stop requiring this plugin?" opened={isAsking} onClose={close}>
        <ActionForm action={save} onSubmit={() => save.mutate(false)}>
          <Stack>
            <Text>
              While it does not run, fails or times out, messages and turns continue without its checks. An update may
              end its checks without your consent.
            </Text>
            <Group justify="flex-end">
              <Button variant="default" onClick={close} data-autofocus>
                Cancel
              </Button>
              <Button type="submit" color="red" loading={save.isPending}>
                Stop requiring it
              </Button>
            </Group>
          </Stack>
        </ActionForm>
      </Dialog>
    </>
  );
}
