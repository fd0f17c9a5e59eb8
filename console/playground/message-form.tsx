/** Runs `inboundMessage` on a message and appends the result to the transcript. */
import { Stack } from '@mantine/core';
import { type KeyboardEvent, useState } from 'react';
import type { HookAnswer } from '../../sdk/session/api-types.ts';
import { createRandomId } from '../rest/random-id.ts';
import { callSessions } from '../rest/session-api.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { isOfComposition } from '../shell/composition.ts';
import { TextAreaField } from '../shell/form-fields.tsx';
import { ChainTrace } from './chain-trace.tsx';
import { RunButton } from './run-button.tsx';
import { usePlaygroundCall } from './use-playground-call.ts';

export function MessageForm({ path }: { readonly path: string }) {
  const [text, setText] = useState('');
  const send = usePlaygroundCall(async (said: string, signal) => {
    const message = { id: createRandomId(), from: 'playground', text: said, attachments: [] };
    const hook = `${path}/hooks/inboundMessage`;
    const answer = await callSessions<HookAnswer<'inboundMessage'>>('POST', hook, { context: { message } }, signal);
    if (answer.action === 'continue') {
      const { message: changed } = answer.context;
      const messages = [{ id: message.id, role: 'user', text: changed.text }];
      await callSessions('POST', `${path}/messages`, { messages }, signal);
    }
    // What was typed meanwhile is the next message.
    setText((typed) => (typed === said ? '' : typed));
    return answer;
  });
  return (
    <ActionForm action={send} onSubmit={() => send.mutate(text)}>
      <Stack gap="sm">
        <TextAreaField
          label="Message"
          name="context.message.text"
          description="Enter sends it. Shift+Enter starts a new line."
          autosize
          maxRows={10}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          onKeyDown={sendByEnter}
        />
        <RunButton call={send} disabled={text === ''}>
          Send
        </RunButton>
        {send.data ? <ChainTrace answer={send.data} /> : null}
      </Stack>
    </ActionForm>
  );
}

function sendByEnter(event: KeyboardEvent<HTMLTextAreaElement>): void {
  // Enter also ends the composition of a character, such as a Japanese one.
  if (event.key !== 'Enter' || event.shiftKey || isOfComposition(event.nativeEvent)) return;
  event.preventDefault();
  if (event.currentTarget.value !== '') event.currentTarget.form?.requestSubmit();
}
