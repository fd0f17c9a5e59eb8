/** Runs `inboundMessage` on a message and appends the result to the transcript. */
import { Button, Group, Stack, TextInput } from '@mantine/core';
import { useInputState } from '@mantine/hooks';
import type { HookAnswer } from '../../sdk/session/api-types.ts';
import { callSessions } from '../rest/session-api.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ChainTrace } from './chain-trace.tsx';

export function MessageForm({ path }: { readonly path: string }) {
  const [text, setText] = useInputState('');
  const send = useAction(async (said: string) => {
    const message = { id: crypto.randomUUID(), from: 'playground', text: said, attachments: [] };
    const answer = await callSessions<HookAnswer<'inboundMessage'>>('POST', `${path}/hooks/inboundMessage`, {
      context: { message },
    });
    if (answer.action === 'continue') {
      const { message: changed } = answer.context;
      await callSessions('POST', `${path}/messages`, {
        messages: [{ id: message.id, role: 'user', text: changed.text }],
      });
    }
    return answer;
  });
  return (
    <ActionForm onSubmit={() => send.mutate(text)}>
      <Stack gap="sm">
        <Group align="flex-end">
          <TextInput label="Message" value={text} onChange={setText} style={{ flex: '1 1 16rem' }} />
          <Button type="submit" disabled={text === ''} loading={send.isPending}>
            Send
          </Button>
        </Group>
        {send.data ? <ChainTrace answer={send.data} /> : null}
      </Stack>
    </ActionForm>
  );
}
