/** Signs in with a pasted token. */
import { Button, PasswordInput, Stack } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { setToken } from './token.ts';

export function TokenForm() {
  const [text, setText] = useState('');
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() !== '') setToken(text.trim());
  };
  return (
    <form onSubmit={onSubmit}>
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
    </form>
  );
}
