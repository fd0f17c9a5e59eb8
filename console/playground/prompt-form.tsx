/** Runs `systemPrompt` on a system prompt. */
import { Stack } from '@mantine/core';
import { useState } from 'react';
import type { HookAnswer } from '../../sdk/session/api-types.ts';
import { callSessions } from '../rest/session-api.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { TextAreaField } from '../shell/form-fields.tsx';
import { ChainTrace } from './chain-trace.tsx';
import { RunButton } from './run-button.tsx';
import { usePlaygroundCall } from './use-playground-call.ts';

export function PromptForm({ path }: { readonly path: string }) {
  const [systemPrompt, setPrompt] = useState('You are a helpful agent.');
  const run = usePlaygroundCall((prompt: string, signal) => {
    const context = { systemPrompt: prompt, model: 'playground' };
    return callSessions<HookAnswer<'systemPrompt'>>('POST', `${path}/hooks/systemPrompt`, { context }, signal);
  });
  return (
    <ActionForm action={run} onSubmit={() => run.mutate(systemPrompt)}>
      <Stack gap="sm">
        <TextAreaField
          label="Assembled prompt"
          name="context.systemPrompt"
          autosize
          minRows={2}
          maxRows={10}
          value={systemPrompt}
          onChange={(event) => setPrompt(event.currentTarget.value)}
        />
        <RunButton call={run} variant="default">
          Run the hook
        </RunButton>
        {run.data ? <ChainTrace answer={run.data} /> : null}
      </Stack>
    </ActionForm>
  );
}
