/** Signs in with the OpenID Connect issuer. */
import { Alert, Button, Loader, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { useEffect } from 'react';
import { getErrorMessage } from '../rest/problem.ts';
import type { IssuerFacts } from './issuer.ts';
import { RETURN_PATH } from './return-path.ts';

const isBack = (): boolean => location.pathname === RETURN_PATH;

export function IssuerButton({ facts }: { readonly facts: IssuerFacts }) {
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
