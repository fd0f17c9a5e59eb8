/** Changes whether an installation is required. */
import { Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { useAction } from '../rest/use-action.ts';
import { ConfirmDialog } from '../shell/confirm-button.tsx';
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
      <ConfirmDialog
        title="Stop requiring this plugin?"
        label="Stop requiring it"
        isOpen={isAsking}
        onClose={close}
        action={save}
        onConfirm={() => save.mutate(false)}
      >
        <Text>
          While it does not run, fails or times out, messages and turns continue without its checks. An update may end
          its checks without your consent.
        </Text>
      </ConfirmDialog>
    </>
  );
}
