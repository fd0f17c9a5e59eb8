/** Calls one of the session's tools. */

import { Button, Group, NativeSelect, Skeleton, Stack, Text, Textarea } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Page, Tool } from '../../sdk/session/api-types.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { callSessions } from '../rest/session-api.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { escapeText, formatJson } from '../style/untrusted-text.ts';

export function ToolForm({ path }: { readonly path: string }) {
  const tools = useQuery({
    queryKey: ['sessions', path, 'tools'],
    queryFn: () => callSessions<Page<Tool>>('GET', `${path}/tools`),
    refetchInterval: FOLLOW_MS,
  });
  if (tools.error) return <ErrorAlert error={tools.error} reset={() => void tools.refetch()} />;
  if (!tools.data) return <Skeleton height={60} aria-label="Loading" />;
  if (tools.data.items.length === 0)
    return <Text>No running plugin has a tool. Install a plugin with tools to call one here.</Text>;
  return <CallForm path={path} tools={tools.data.items} />;
}

function CallForm({ path, tools }: { readonly path: string; readonly tools: readonly Tool[] }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const [args, setArgs] = useState('{}');
  const tool = tools.find(({ name }) => name === chosen) ?? tools[0];
  const call = useAction(() =>
    callSessions<unknown>('POST', `${path}/tools/${encodeURIComponent(tool?.name ?? '')}`, {
      arguments: readArguments(args),
    }),
  );
  return (
    <ActionForm onSubmit={() => call.mutate(undefined)}>
      <Stack gap="sm">
        <NativeSelect
          label="Tool"
          description={escapeText(tool?.description ?? '')}
          value={tool?.name ?? ''}
          onChange={(event) => setChosen(event.currentTarget.value)}
          data={tools.map(({ name }) => name)}
        />
        <Textarea
          label="Arguments, as JSON"
          autosize
          minRows={2}
          value={args}
          onChange={(event) => setArgs(event.currentTarget.value)}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        />
        <Group>
          <Button type="submit" variant="default" loading={call.isPending}>
            Call the tool
          </Button>
        </Group>
        {call.data === undefined ? null : <PreformattedText role="status">{formatJson(call.data)}</PreformattedText>}
      </Stack>
    </ActionForm>
  );
}

function readArguments(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('The arguments are not valid JSON. Enter an object such as {"city": "Bern"}.');
  }
}
