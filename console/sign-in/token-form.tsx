/** Signs in with a pasted token. */
import { Button, PasswordInput, Stack } from '@mantine/core';
import { useState } from 'react';
import { ActionForm } from '../shell/action-form.tsx';
import { setToken } from './token.ts';

export function TokenForm() {
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
