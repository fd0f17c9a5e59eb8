/** Signs in over a page whose session has ended. The page stays as it is, and its requests wait. */
import { Modal, Stack, Text } from '@mantine/core';
import { SignInOptions } from './sign-in-options.tsx';

/** Above the dialogs of the page. */
const Z_INDEX = 400;
const stay = (): void => undefined;

export function SignInDialog() {
  return (
    <Modal.Root opened onClose={stay} closeOnClickOutside={false} closeOnEscape={false} centered zIndex={Z_INDEX}>
      <Modal.Overlay backgroundOpacity={0.55} />
      <Modal.Content>
        <Modal.Body p="lg">
          <Stack>
            <Modal.Title fw={620} fz="lg">
              Your session has ended
            </Modal.Title>
            <Text>Sign in again to continue. The page keeps what you have entered.</Text>
            <SignInOptions isOverPage />
          </Stack>
        </Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
