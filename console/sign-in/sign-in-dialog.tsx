/** Signs in over a page whose session has ended or was replaced. The page stays as it is, and its requests wait. */
import { Modal, Stack, Text } from '@mantine/core';
import { useMe } from '../rest/me.ts';
import { escapeText } from '../style/untrusted-text.ts';
import { SignInOptions } from './sign-in-options.tsx';

/** Above the dialogs of the page. */
const Z_INDEX = 400;
const stay = (): void => undefined;

interface SignInDialogProps {
  /** Whether this browser was signed in to another account. */
  readonly isReplaced: boolean;
}

export function SignInDialog({ isReplaced }: SignInDialogProps) {
  const { data: me } = useMe();
  return (
    <Modal.Root opened onClose={stay} closeOnClickOutside={false} closeOnEscape={false} centered zIndex={Z_INDEX}>
      <Modal.Overlay backgroundOpacity={0.55} />
      <Modal.Content>
        <Modal.Body p="lg">
          <Stack>
            <Modal.Title fw={620} fz="lg">
              {isReplaced ? 'Another account is signed in' : 'Your session has ended'}
            </Modal.Title>
            {isReplaced ? (
              <Text>
                This page is of the account <span className="foreign">{escapeText(me?.name ?? '')}</span>. Sign in again
                as this account to continue: the page keeps what you have entered. To use the other account, reload the
                page.
              </Text>
            ) : (
              <Text>Sign in again to continue. The page keeps what you have entered.</Text>
            )}
            <SignInOptions isOverPage />
          </Stack>
        </Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
