/** The sign-in page. */
import { Alert, Anchor, Center, Group, Paper, Stack, Text, Title } from '@mantine/core';
import { getErrorMessage } from '../rest/problem.ts';
import { documentation } from '../shell/navigation.ts';
import { usePageTitle } from '../shell/use-page-title.ts';
import { readLinkRefusal } from './sign-in-link.ts';
import { SignInOptions } from './sign-in-options.tsx';

export function SignInPage() {
  usePageTitle('Sign in');
  const refusal = readLinkRefusal();
  return (
    <Center mih="100vh" component="main" p="md" className="sign-in">
      <Paper withBorder shadow="lg" p={32} maw={440} w="100%" radius="lg" className="part">
        <Stack>
          <Group gap="sm" wrap="nowrap">
            <img src="/icon.svg" alt="" width={36} height={36} />
            <Title order={1}>Sign in to Bulkhead</Title>
          </Group>
          {refusal ? (
            <Alert color="red" role="alert" title="You are not signed in">
              <Text size="sm" className="foreign">
                {getErrorMessage(refusal)}
              </Text>
            </Alert>
          ) : null}
          <SignInOptions isOverPage={false} />
          <Anchor href={documentation.href}>{documentation.label}</Anchor>
        </Stack>
      </Paper>
    </Center>
  );
}
