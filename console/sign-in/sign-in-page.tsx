/** The sign-in page: with the configured issuer, or with a token. */
import {
  Alert,
  Anchor,
  Button,
  Center,
  Code,
  Group,
  Loader,
  Paper,
  PasswordInput,
  Skeleton,
  Stack,
  Text,
  Title,
} from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { readBody, rest } from '../rest/client.ts';
import { getErrorMessage } from '../rest/problem.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { documentation } from '../shell/navigation.ts';
import type { IssuerFacts } from './issuer.ts';
import { RETURN_PATH } from './return-path.ts';
import { setToken } from './token.ts';

export function SignInPage() {
  const facts = useQuery({
    queryKey: ['sign-in'],
    queryFn: () => readBody(rest.GET('/sign-in')),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Center mih="100vh" component="main" p="md" className="sign-in">
      <Paper withBorder shadow="lg" p={32} maw={440} w="100%" radius="lg" className="part">
        <Stack>
          <Group gap="sm" wrap="nowrap">
            <img src="/icon.svg" alt="" width={36} height={36} />
            <Title order={1}>Sign in to Bulkhead</Title>
          </Group>
          {facts.isPending ? <Skeleton height={120} aria-label="Loading" /> : null}
          {facts.error ? <ErrorAlert error={facts.error} reset={() => void facts.refetch()} /> : null}
          {facts.data?.oidc ? <IssuerButton facts={facts.data.oidc} /> : null}
          {facts.data?.oidc === null ? <ByToken /> : null}
          <Anchor href={documentation.href}>{documentation.label}</Anchor>
        </Stack>
      </Paper>
    </Center>
  );
}

function ByToken() {
  return (
    <>
      <Text>
        Open the link that <Code>npm start</Code> printed, or paste a token. <Code>npm run -s token -- ann</Code> makes
        one for the user ann.
      </Text>
      <TokenForm />
    </>
  );
}

const isBack = (): boolean => location.pathname === RETURN_PATH;

function IssuerButton({ facts }: { readonly facts: IssuerFacts }) {
  const router = useRouter();
  const leave = useMutation({
    mutationFn: async () => {
      const here = isBack() ? '/' : location.pathname + location.search;
      await (await import('./issuer.ts')).redirectToIssuer(facts, here);
    },
  });
  const { mutate: comeBack, ...back } = useMutation({
    mutationFn: async () => (await import('./issuer.ts')).finishSignIn(facts),
    onSuccess: (before) => router.history.replace(before),
  });
  useEffect(() => {
    if (isBack() && location.search !== '') comeBack();
  }, [comeBack]);
  const error = leave.error ?? back.error;
  if (back.isPending) return <Loader aria-label="Signing in" />;
  return (
    <Stack gap="xs">
      <Button loading={leave.isPending} onClick={() => leave.mutate()}>
        Sign in with {new URL(facts.issuer).host}
      </Button>
      {error ? (
        <Alert color="red" role="alert" title="You are not signed in">
          <Text size="sm" className="foreign">
            {getErrorMessage(error)}. Try again. If this continues, contact the operator.
          </Text>
        </Alert>
      ) : null}
    </Stack>
  );
}

function TokenForm() {
  const [text, setText] = useState('');
  const signIn = () => {
    if (text.trim() !== '') setToken(text.trim());
  };
  return (
    <ActionForm onSubmit={signIn}>
      <Stack>
        <PasswordInput
          label="Token"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          autoComplete="off"
          data-autofocus
        />
        <Button type="submit" disabled={text.trim() === ''}>
          Sign in
        </Button>
      </Stack>
    </ActionForm>
  );
}
