/** The sign-in page. */
import { Anchor, Center, Group, Paper, Stack, Title } from '@mantine/core';
import { documentation } from '../shell/navigation.ts';
import { usePageTitle } from '../shell/use-page-title.ts';
import { SignInOptions } from './sign-in-options.tsx';

export function SignInPage() {
  usePageTitle('Sign in');
  return (
    <Center mih="100vh" component="main" p="md" className="sign-in">
      <Paper withBorder shadow="lg" p={32} maw={440} w="100%" radius="lg" className="part">
        <Stack>
          <Group gap="sm" wrap="nowrap">
            <img src="/icon.svg" alt="" width={36} height={36} />
            <Title order={1}>Sign in to Bulkhead</Title>
          </Group>
          <SignInOptions isOverPage={false} />
          <Anchor href={documentation.href}>{documentation.label}</Anchor>
        </Stack>
      </Paper>
    </Center>
  );
}
