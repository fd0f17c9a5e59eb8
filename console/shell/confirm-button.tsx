/** A button that asks for confirmation before it runs a change of consequence. */
import { Button, type ButtonProps, Group, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { type ReactNode, useState } from 'react';
import { type RefusableAction, useAction } from '../rest/use-action.ts';
import { ActionForm } from './action-form.tsx';
import { Dialog } from './dialog.tsx';
import { useReadOnly } from './read-only.ts';
import { UnsavedGuard } from './unsaved-guard.tsx';
import type { Fields } from './use-fields.ts';

interface ConfirmButtonProps {
  readonly label: string;
  /** A shorter label for the button itself. */
  readonly short?: string;
  /** Default: the label as a question. */
  readonly title?: string;
  /** The state of its inputs, which a success resets. They stay after a refusal, and when the dialog is closed. */
  readonly fields?: Pick<Fields<object>, 'isChanged' | 'reset'>;
  /** The consequences of the action, and its inputs. The dialog stays open until what is required is filled in. */
  readonly children: ReactNode;
  readonly run: () => Promise<unknown>;
  /** Called when the dialog is opened, unless its action still runs. */
  readonly onOpen?: () => void;
  /** Message after success. */
  readonly done: string;
  readonly button?: ButtonProps;
  /** Whether it takes nothing away: the button that confirms is not red. */
  readonly isHarmless?: boolean;
}

export function ConfirmButton(props: ConfirmButtonProps) {
  const { label, short, button, fields, onOpen } = props;
  const [isOpen, { open, close }] = useDisclosure(false);
  /** As it was when the dialog was opened. Null: never, as in most rows of a list. */
  const [opened, setOpened] = useState<ConfirmButtonProps | null>(null);
  // If the label changes, the action changed, such as to Demote after Appoint: keep what the user opened. With fields the action is
  // the same, and only a name in the label changed: `opened` has their old values.
  const asked = opened === null || fields || opened.label === label ? props : opened;
  // As it was: the buttons would move under the pointer if a name in it changed.
  const confirmLabel = opened?.label ?? label;
  const { run, done, title = `${confirmLabel}?` } = asked;
  const action = useAction<void, string>(
    async () => {
      await run();
      close();
      fields?.reset();
      // The message as it was when the action began: it may name what was in the fields.
      return done;
    },
    (message) => message,
  );
  if (useReadOnly()) return null;
  const start = () => {
    // Cancel only closes the dialog: while the action runs, the dialog that is opened again shows that.
    if (!action.isPending) {
      action.reset();
      onOpen?.();
    }
    setOpened(props);
    open();
  };
  return (
    <>
      <Button size="xs" variant="default" aria-label={label} {...button} onClick={start}>
        {short ?? label}
      </Button>
      <ConfirmDialog
        title={title}
        label={confirmLabel}
        isOpen={isOpen}
        onClose={close}
        action={action}
        onConfirm={() => action.mutate()}
        isHarmless={asked.isHarmless ?? false}
      >
        {asked.children}
      </ConfirmDialog>
      {fields && opened !== null ? (
        <UnsavedGuard isUnsaved={isOpen && fields.isChanged}>
          What you typed in the dialog is not saved, and is lost if you leave.
        </UnsavedGuard>
      ) : null}
    </>
  );
}

interface ConfirmDialogProps {
  readonly title: string;
  /** The label of the button that confirms. */
  readonly label: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly action: RefusableAction & { readonly isPending: boolean };
  readonly onConfirm: () => void;
  readonly isHarmless?: boolean;
  readonly children: ReactNode;
}

/** For an action that something else than a `ConfirmButton` starts, such as a checkbox. */
export function ConfirmDialog({ title, label, isOpen, onClose, action, onConfirm, ...props }: ConfirmDialogProps) {
  const { isHarmless = false, children } = props;
  return (
    <Dialog title={title} opened={isOpen} onClose={onClose}>
      {/* While the dialog fades out, a double click still reaches it. */}
      <ActionForm action={action} onSubmit={() => isOpen && onConfirm()}>
        <Stack>
          {children}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose} data-autofocus>
              Cancel
            </Button>
            <Button type="submit" {...(isHarmless ? {} : { color: 'red' })} loading={action.isPending}>
              {label}
            </Button>
          </Group>
        </Stack>
      </ActionForm>
    </Dialog>
  );
}
