/** Runs the saved draft in a session beside the editor. */
import { Code, Skeleton, Stack, Text, Title } from '@mantine/core';
import { useState } from 'react';
import type { SessionRecord } from '../../sdk/session/api-types.ts';
import { ConditionAlert } from '../installations/status-badge.tsx';
import { handOverValues } from '../installations/typed-values.ts';
import { UpdateConsent } from '../installations/update-consent.tsx';
import { MessageForm } from '../playground/message-form.tsx';
import { PromptForm } from '../playground/prompt-form.tsx';
import { ToolForm } from '../playground/tool-form.tsx';
import { rest } from '../rest/client.ts';
import { type Installation, useInstallations } from '../rest/installations.ts';
import { usePlugin } from '../rest/plugins.ts';
import { callSessions } from '../rest/session-api.ts';
import { ActionButton } from '../shell/action-button.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { LogLink } from '../shell/log-link.tsx';
import { PageLink } from '../shell/page-link.tsx';

const AGENT = 'editor';

interface Tried {
  readonly pluginId: string;
  readonly slug: string;
}

export function TryPanel({ pluginId, slug }: Tried) {
  const [session, setSession] = useState<string | null>(null);
  const installations = useInstallations();
  const hasDraft = usePlugin(pluginId).data?.draft != null;
  const installation = installations.data?.find((one) => one.pluginId === pluginId);
  const start = async () => {
    await followDraft(slug, installation);
    // The key finds the session of the last visit again.
    const body = { agentId: AGENT, key: `editor:${pluginId}` };
    setSession((await callSessions<SessionRecord>('POST', '/sessions', body)).id);
  };
  if (installations.error && !installations.data)
    return <ErrorAlert error={installations.error} reset={() => void installations.refetch()} />;
  if (!installations.data) return <Skeleton height={120} aria-label="Loading" />;
  const isReady = session !== null && installation?.versionPolicy === 'Draft';
  return (
    <Stack>
      {installation?.versionPolicy === 'Draft' ? <DraftState installation={installation} /> : null}
      {isReady ? (
        <Forms path={`/sessions/${encodeURIComponent(session)}`} installationId={installation.id} />
      ) : (
        <>
          <Text size="sm">{describeStart(installation, hasDraft)}</Text>
          <ActionButton size="sm" variant="filled" run={start} disabled={!hasDraft}>
            Try it
          </ActionButton>
        </>
      )}
    </Stack>
  );
}

function describeStart(installation: Installation | undefined, hasDraft: boolean): string {
  if (!hasDraft) return 'Save the files as a draft first. Then you can run it here.';
  if (!installation) return 'This button installs the draft for you and opens a session.';
  if (installation.versionPolicy === 'Draft') return 'Your installation runs the draft. This button opens a session.';
  return `Your installation runs ${installation.currentSemVer ?? 'another version'}. This button switches it to the draft and opens a session.`;
}

/** Installs the draft, or switches the installation to it. */
async function followDraft(slug: string, installation: Installation | undefined): Promise<void> {
  const versionPolicy = 'Draft';
  if (!installation) await rest.POST('/installations', { body: { slug, versionPolicy } });
  else if (installation.versionPolicy !== versionPolicy)
    await rest.PATCH('/installations/{id}', { params: { path: { id: installation.id } }, body: { versionPolicy } });
}

function DraftState({ installation }: { readonly installation: Installation }) {
  return (
    <>
      <UpdateConsent installation={installation} onUnsaved={(unsaved) => handOverValues(installation.id, unsaved)} />
      <ConditionAlert installation={installation} />
      <Text size="sm">
        <LogLink installationId={installation.id}>Its log</LogLink> shows what <Code>host.log</Code> writes.
      </Text>
      <Text size="sm">
        It runs each draft that you save, for all your agents, until you{' '}
        <PageLink to="/installations/$id" params={{ id: installation.id }} size="sm" underline="always">
          choose a version
        </PageLink>
        .
      </Text>
    </>
  );
}

function Forms({ path, installationId }: { readonly path: string; readonly installationId: string }) {
  return (
    <>
      <Title order={3} fz="sm">
        A hook: the system prompt
      </Title>
      <PromptForm path={path} />
      <Title order={3} fz="sm">
        A hook: a message arrives
      </Title>
      <MessageForm path={path} />
      <Title order={3} fz="sm">
        A tool
      </Title>
      <ToolForm path={path} installationId={installationId} />
    </>
  );
}
