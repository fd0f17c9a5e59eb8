/** Calls one of the session's tools. */
import { Alert, NativeSelect, Skeleton, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Page, Tool } from '../../sdk/session/api-types.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { callSessions } from '../rest/session-api.ts';
import { useReadError } from '../rest/use-read-error.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { FieldFaultError, TextAreaField } from '../shell/form-fields.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { escapeText, formatJson } from '../style/untrusted-text.ts';
import { composeArguments } from './example-arguments.ts';
import { RunButton } from './run-button.tsx';
import { usePlaygroundCall } from './use-playground-call.ts';

const NO_TOOL = 'No running plugin has a tool. Install a plugin with tools to call one here.';
const NO_TOOL_IN_DRAFT = 'The running draft has no tool yet.';

interface ToolFormProps {
  readonly path: string;
  /** Offers the tools of this installation only, which runs the draft. Default: those of all. */
  readonly installationId?: string;
}

export function ToolForm({ path, installationId }: ToolFormProps) {
  const tools = useQuery({
    queryKey: ['sessions', path, 'tools'],
    queryFn: () => callSessions<Page<Tool>>('GET', `${path}/tools`),
    refetchInterval: FOLLOW_MS,
  });
  const error = useReadError(tools);
  const [chosen, setChosen] = useState<Tool | null>(null);
  const found = tools.data?.items ?? [];
  const items = installationId === undefined ? found : found.filter((one) => one.installationId === installationId);
  const [first] = items;
  // Chosen once: the list is read again while the user types, and the button must call the tool that the arguments are for.
  if (chosen === null && first) setChosen(first);
  if (error && !tools.data) return <ErrorAlert error={error} reset={() => void tools.refetch()} />;
  if (!tools.data) return <Skeleton height={60} aria-label="Loading" className="loading-list" />;
  if (!chosen) return <Text>{installationId === undefined ? NO_TOOL : NO_TOOL_IN_DRAFT}</Text>;
  const offered = items.find(({ name }) => name === chosen.name);
  const tool = offered ?? chosen;
  return (
    <Stack gap="sm">
      <NativeSelect
        label="Tool"
        description={escapeText(tool.description)}
        value={tool.name}
        onChange={(event) => setChosen(items.find(({ name }) => name === event.currentTarget.value) ?? tool)}
        data={(offered ? items : [tool, ...items]).map(({ name }) => name)}
      />
      {offered ? null : (
        <Alert color="yellow" role="status">
          {installationId === undefined
            ? `No running plugin has the tool ${tool.name} now. Start its plugin again or choose another tool.`
            : `The draft has no tool ${tool.name} now. Choose another tool.`}
        </Alert>
      )}
      <CallForm key={tool.name} path={path} tool={tool} isCallable={offered !== undefined} />
    </Stack>
  );
}

interface CallFormProps {
  readonly path: string;
  readonly tool: Tool;
  /** Whether a running plugin has the tool. */
  readonly isCallable: boolean;
}

function CallForm({ path, tool, isCallable }: CallFormProps) {
  /** Null: nothing yet. The arguments then follow the parameters, which the next save of a draft may change. */
  const [typed, setTyped] = useState<string | null>(null);
  const args = typed ?? composeArguments(tool.parameters);
  const call = usePlaygroundCall((text: string, signal) => {
    const body = { arguments: readArguments(text) };
    return callSessions<unknown>('POST', `${path}/tools/${encodeURIComponent(tool.name)}`, body, signal);
  });
  return (
    <ActionForm action={call} onSubmit={() => call.mutate(args)}>
      <Stack gap="sm">
        <TextAreaField
          label="Arguments"
          description="As JSON"
          name="arguments"
          autosize
          minRows={2}
          maxRows={15}
          value={args}
          onChange={(event) => setTyped(event.currentTarget.value)}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        />
        <RunButton call={call} variant="default" disabled={!isCallable}>
          Call the tool
        </RunButton>
        {call.data === undefined ? null : <PreformattedText role="status">{formatJson(call.data)}</PreformattedText>}
      </Stack>
    </ActionForm>
  );
}

/** @throws FieldFaultError */
function readArguments(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const message = 'The arguments are not valid JSON. Enter an object such as {"city": "Bern"}.';
    throw new FieldFaultError([{ field: 'arguments', message }]);
  }
}
