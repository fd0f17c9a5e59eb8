/** The ways to sign in: with the configured issuer, or with a token. */
import { Alert, Button, Code, Loader, PasswordInput, Skeleton, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { readBody, rest } from '../rest/client.ts';
import { getErrorMessage, Problem } from '../rest/problem.ts';
import { fetchAsConsole } from '../rest/user-fetch.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { loadPart } from '../shell/load-chunk.ts';
import type { IssuerFacts } from './issuer.ts';
import { isAnswered, isOwnWindow, RETURN_PATH, WINDOW_MARK } from './return-path.ts';
import { readSessionState } from './session-state.ts';
import { signIn } from './sign-in-requests.ts';

const WINDOW_FEATURES = 'popup,width=520,height=720';

interface SignInOptionsProps {
  /** Whether the sign-in covers an open page, which must not be left. */
  readonly isOverPage: boolean;
}

export function SignInOptions({ isOverPage }: SignInOptionsProps) {
  const facts = useQuery({
    queryKey: ['sign-in'],
    queryFn: () => readBody(rest.GET('/sign-in', { fetch: fetchAsConsole })),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (facts.error) return <ErrorAlert error={facts.error} reset={() => void facts.refetch()} />;
  if (!facts.data) return <Skeleton height={120} aria-label="Loading" />;
  if (facts.data.oidc) return <IssuerButton facts={facts.data.oidc} isOverPage={isOverPage} />;
  return (
    <>
      <Text>
        Open a sign-in link, or paste a token. Ask the operator of this service for one. On the service’s machine,{' '}
        <Code>npm run -s token -- ann --link</Code> prints a link for the user ann, and{' '}
        <Code>npm run -s token -- ann</Code> a token.
      </Text>
      <TokenForm isOverPage={isOverPage} />
    </>
  );
}

/** Focuses what the dialog over a page starts on. It comes after a request, so Mantine's focus trap has begun without it. */
const focusFirst = (element: HTMLElement | null): void => element?.focus();

const loadIssuer = () => loadPart(() => import('./issuer.ts'), 'issuer');

/** Returns the path to open after the issuer. The redirect path itself means: close this window. */
function findReturnPath(): string {
  if (isOwnWindow()) return RETURN_PATH;
  return location.pathname === RETURN_PATH ? '/' : location.pathname + location.search;
}

function IssuerButton({ facts, isOverPage }: SignInOptionsProps & { readonly facts: IssuerFacts }) {
  const router = useRouter();
  const { mutate: goToIssuer, ...going } = useMutation({
    mutationFn: async () => {
      // If pop-ups are blocked, this page goes to the issuer. The editor keeps its text in the browser's storage.
      if (isOverPage && window.open(RETURN_PATH + WINDOW_MARK, '_blank', WINDOW_FEATURES)) return;
      // In a window that a page opened, this is another account than that of the page.
      const isSignedIn = readSessionState() === 'active';
      await (await loadIssuer()).redirectToIssuer(facts, findReturnPath(), isSignedIn);
    },
  });
  const { mutate: finish, ...finishing } = useMutation({
    mutationFn: async () => (await loadIssuer()).finishSignIn(facts),
    onSuccess: (before) => {
      if (before === RETURN_PATH) window.close();
      location.replace(before === RETURN_PATH ? '/' : before);
    },
    onError: (error) => {
      if (readSessionState() !== 'active') return;
      // Another tab has signed in meanwhile.
      const content = { color: 'red', title: 'The sign-in failed', message: getErrorMessage(error) };
      notifications.show({ ...content, autoClose: false });
      router.history.replace('/');
    },
  });
  useEffect(() => {
    if (isOverPage) return;
    if (isAnswered()) finish();
    else if (isOwnWindow()) goToIssuer();
  }, [isOverPage, finish, goToIssuer]);
  const error = going.error ?? finishing.error;
  if (finishing.isPending || finishing.isSuccess) return <Loader aria-label="Signing in" />;
  return (
    <Stack gap="xs">
      <Button loading={going.isPending} onClick={() => goToIssuer()} ref={isOverPage ? focusFirst : null}>
        Sign in with {new URL(facts.issuer).host}
      </Button>
      {error ? (
        <Alert color="red" role="alert" title="You are not signed in">
          <Text size="sm" className="foreign">
            {getErrorMessage(error).replace(/\.$/, '')}. Try again. If this continues, contact the operator.
          </Text>
        </Alert>
      ) : null}
    </Stack>
  );
}

function TokenForm({ isOverPage }: SignInOptionsProps) {
  const [text, setText] = useState('');
  const token = text.trim();
  const attempt = useMutation({ mutationFn: () => signIn({ token }) });
  return (
    <ActionForm onSubmit={() => attempt.mutate()}>
      <Stack>
        <PasswordInput
          label="Token"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          error={attempt.error ? describeRefusal(attempt.error) : null}
          errorProps={{ role: 'alert' }}
          autoComplete="off"
          visibilityToggleFocusable
          ref={isOverPage ? focusFirst : null}
        />
        <Button type="submit" disabled={token === ''} loading={attempt.isPending}>
          Sign in
        </Button>
      </Stack>
    </ActionForm>
  );
}

const describeRefusal = (error: Error): string =>
  error instanceof Problem && error.code === 'unauthenticated'
    ? 'The service does not accept this token: it is incomplete, expired or revoked. Check it, or get a new one.'
    : getErrorMessage(error);
