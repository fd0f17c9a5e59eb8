/** Changes whether an installation is required. */
import { Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { listEndingChecks } from '../../sdk/contract/ending-checks.ts';
import { ReachList } from '../catalog/reach-list.tsx';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { useAction } from '../rest/use-action.ts';
import { ConfirmDialog } from '../shell/confirm-button.tsx';
import { useReadOnly } from '../shell/read-only.ts';
import { RequiredCheckbox } from './required-checkbox.tsx';

interface OfInstallation {
  readonly installation: Installation;
}

/** Asks before the plugin is no longer required, as a pause does: messages and turns may continue without its checks then. */
export function RequiredSetting({ installation }: OfInstallation) {
  const { id, required } = installation;
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
        <Text>While it does not run, fails or times out, messages and turns continue without its checks.</Text>
        <EndingChecks installation={installation} />
      </ConfirmDialog>
    </>
  );
}

/** Says which update begins because the plugin is no longer required: one that waits for nothing but consent to the checks that it ends. */
function EndingChecks({ installation }: OfInstallation) {
  const { pendingUpdate, reach } = installation;
  const ending = listEndingChecks(pendingUpdate, installation);
  if (!pendingUpdate || ending.length === 0 || pendingUpdate.added.length + pendingUpdate.missing.length > 0)
    return <Text>Updates that ask for nothing new may end its checks without your consent.</Text>;
  return (
    <>
      <Text>
        {`The update to ${pendingUpdate.semVer ?? 'the draft'} begins, also if you have declined it. These checks end with it, and others may end with later updates, without your consent:`}
      </Text>
      <ReachList reach={reach.filter(({ capability }) => ending.includes(capability))} />
    </>
  );
}
