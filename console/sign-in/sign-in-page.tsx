/** Signing in: by the link that `npm start` prints, by a pasted token, or with the issuer the operator named. */
import { Button, Center, Code, Paper, PasswordInput, Stack, Text, Title } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { setToken } from './token.ts';

export function SignInPage() {
  const [text, setText] = useState('');
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() !== '') setToken(text.trim());
  };
  return (
    <Center mih="100vh" component="main" p="md">
      <Paper withBorder p="xl" maw={460} w="100%">
        <form onSubmit={onSubmit}>
          <Stack>
            <Title order={1}>Sign in to Bulkhead</Title>
            <Text>
              Open the link that <Code>npm start</Code> printed, or paste a token. <Code>npm run -s token -- ann</Code>{' '}
              makes one for the user ann.
            </Text>
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
        </form>
      </Paper>
    </Center>
  );
}
