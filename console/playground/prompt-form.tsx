/** Runs `systemPrompt` on a system prompt. */
import { Button, Group, Stack, Textarea } from '@mantine/core';
import { useState } from 'react';
import type { HookAnswer } from '../../sdk/session/api-types.ts';
import { callSessions } from '../rest/session-api.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ChainTrace } from './chain-trace.tsx';

export function PromptForm({ path }: { readonly path: string }) {
  const [systemPrompt, setPrompt] = useState('You are a helpful agent.');
  const run = useAction((prompt: string) =>
    callSessions<HookAnswer<'systemPrompt'>>('POST', `${path}/hooks/systemPrompt`, {
      context: { systemPrompt: prompt, model: 'playground' },
    }),
  );
  return (
    <ActionForm onSubmit={() => run.mutate(systemPrompt)}>
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
    </ActionForm>
  );
}
