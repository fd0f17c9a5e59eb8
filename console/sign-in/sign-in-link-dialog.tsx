/**
 * Asks before a sign-in link replaces a session. Otherwise a page that got the code of a link could sign a user in to another account
 * unnoticed.
 */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useWindowEvent } from '@mantine/hooks';
import { useState } from 'react';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { readSessionState } from './session-state.ts';
import { openSignInLink, type WaitingLink } from './sign-in-link.ts';
import { signIn } from './sign-in-requests.ts';

/** @param first the link with which the page was loaded */
export function SignInLinkDialog({ first }: { readonly first: WaitingLink | null }) {
  const [link, setLink] = useState(first);
  // A link that is opened in this tab changes the hash only, and the page is not loaded again.
  useWindowEvent('hashchange', () => void openSignInLink().then(setLink));
  return link === null ? null : <Question key={link.code} link={link} onClose={() => setLink(null)} />;
}

interface QuestionProps {
  readonly link: WaitingLink;
  readonly onClose: () => void;
}

function Question({ link: { code, current }, onClose }: QuestionProps) {
  const action = useAction(async () => {
    await signIn({ code });
    onClose();
    // The page may not know yet whose it is, so it cannot compare the accounts.
    if (readSessionState() !== 'replaced') location.reload();
  });
  return (
    <Dialog title="Sign in with this link?" opened onClose={onClose}>
      <ActionForm action={action} onSubmit={() => action.mutate()}>
        <Stack>
          <Text>
            You are signed in as <span className="foreign">{current}</span>. Sign in as the account of this link
            instead? If you did not ask for the link, cancel: what you enter afterwards could go to somebody else’s
            account.
          </Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose} data-autofocus>
              Cancel
            </Button>
            <Button type="submit" loading={action.isPending}>
              Sign in
            </Button>
          </Group>
        </Stack>
      </ActionForm>
    </Dialog>
  );
}
