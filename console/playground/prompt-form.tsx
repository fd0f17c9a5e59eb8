/** Runs `systemPrompt` on a system prompt. */
import { Button, Group, Stack, Textarea } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { callSessions, type HookAnswer } from '../rest/session-api.ts';
import { useAction } from '../rest/use-action.ts';
import { ChainTrace } from './chain-trace.tsx';

export function PromptForm({ path }: { readonly path: string }) {
  const [systemPrompt, setPrompt] = useState('You are a helpful agent.');
  const run = useAction((prompt: string) =>
    callSessions<HookAnswer>('POST', `${path}/hooks/systemPrompt`, {
      context: { systemPrompt: prompt, model: 'playground' },
    }),
  );
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    run.mutate(systemPrompt);
  };
  return (
    <form onSubmit={onSubmit}>
      <Stack gap="sm">
        <Textarea
          label="Assembled prompt"
          autosize
          minRows={2}
          maxRows={10}
          value={systemPrompt}
          onChange={(event) => setPrompt(event.currentTarget.value)}
        />
        <Group>
          <Button type="submit" variant="default" loading={run.isPending}>
            Run the hook
          </Button>
        </Group>
        {run.data ? <ChainTrace answer={run.data} /> : null}
      </Stack>
    </form>
  );
}
