/** The sign-in page: with the configured issuer, or with a token. */
import { Anchor, Center, Code, Group, Paper, Skeleton, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { readBody, rest } from '../rest/client.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { documentation } from '../shell/navigation.ts';
import { IssuerButton } from './issuer-button.tsx';
import { TokenForm } from './token-form.tsx';

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
