/** The page of one installation. */
import { Group, Skeleton, Stack, Text } from '@mantine/core';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { EventsView } from '../activity/events-view.tsx';
import { HostCallsView } from '../activity/host-calls-view.tsx';
import { UsageView } from '../activity/usage-view.tsx';
import { ChannelsView } from '../channels/channels-view.tsx';
import { isChanged } from '../configuration/form-values.ts';
import { LogView } from '../logs/log-view.tsx';
import { MetricsView } from '../metrics/metrics-view.tsx';
import { readBody, rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';
import { useSubject } from '../rest/use-subject.ts';
import { DeprecationAlert } from '../shell/deprecation-alert.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { PluginHeader } from '../shell/plugin-header.tsx';
import { ReadOnlyArea } from '../shell/read-only.ts';
import { TabViews } from '../shell/tab-views.tsx';
import { UnsavedGuard } from '../shell/unsaved-guard.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { InstallationActions } from './installation-actions.tsx';
import { Overview } from './overview.tsx';
import { SettingsForm } from './settings-form.tsx';
import { ConditionAlert, StatusBadge } from './status-badge.tsx';
import { tabs } from './tabs.ts';
import { type TypedValues, type UnsavedValues, useTypedValues } from './typed-values.ts';
import { UpdateConsent } from './update-consent.tsx';

export function InstallationPage() {
  const { id } = useParams({ from: '/installations/$id' });
  const typed = useTypedValues(id);
  const navigate = useNavigate({ from: '/installations/$id' });
  const found = useSubject(['installations', id], () =>
    readBody(rest.GET('/installations/{id}', { params: { path: { id } } })),
  );
  const showUnsaved = (unsaved: UnsavedValues) => {
    typed.add(unsaved);
    void navigate({ search: { tab: 'settings' }, replace: true, resetScroll: false });
  };
  if (found.error) return <ErrorAlert isPage error={found.error} reset={found.refetch} />;
  if (!found.data) return <Skeleton height={240} aria-label="Loading" />;
  return (
    <ReadOnlyArea value={!found.data.own}>
      <Stack>
        <Head installation={found.data} />
        {found.data.own ? <UpdateConsent installation={found.data} onUnsaved={showUnsaved} /> : null}
        <Parts installation={found.data} typed={typed} />
      </Stack>
    </ReadOnlyArea>
  );
}

function Head({ installation }: { readonly installation: Installation }) {
  const { slug, condition, currentSemVer, own, account } = installation;
  const { updateUnderWay, deprecationMessage } = installation;
  return (
    <>
      <PluginHeader of={installation} actions={<InstallationActions installation={installation} />}>
        <Group gap="sm" mt={4} fz="sm" c="dimmed" style={{ rowGap: 2 }}>
          <Text span c="var(--mantine-color-text)">
            <StatusBadge condition={condition} />
          </Text>
          <Monospace>{currentSemVer ?? 'draft'}</Monospace>
          {updateUnderWay ? (
            <span>{`moves to ${updateUnderWay.semVer ?? 'the draft'} when it has started`}</span>
          ) : null}
          {own ? null : (
            <span className="foreign">installed by {escapeText(account)}. You can view it, but not change it.</span>
          )}
          <PageLink to="/catalog/$slug" params={{ slug }} size="sm">
            In the catalog
          </PageLink>
        </Group>
      </PluginHeader>
      <ConditionAlert installation={installation} />
      <DeprecationAlert message={deprecationMessage} />
    </>
  );
}

interface PartsProps {
  readonly installation: Installation;
  readonly typed: TypedValues;
}

function Parts({ installation, typed }: PartsProps) {
  const { tab = 'overview' } = useSearch({ from: '/installations/$id' });
  const navigate = useNavigate({ from: '/installations/$id' });
  const views = {
    overview: <Overview installation={installation} />,
    settings: <SettingsForm installation={installation} typed={typed} />,
    logs: <LogView installationId={installation.id} />,
    channels: <ChannelsView installation={installation} />,
    events: <EventsView installationId={installation.id} />,
    calls: <HostCallsView installationId={installation.id} />,
    usage: <UsageView installationId={installation.id} />,
    metrics: <MetricsView installationId={installation.id} />,
  };
  return (
    <>
      <UnsavedGuard isUnsaved={isChanged(typed.filled)}>
        What you typed in the settings is not saved, and is lost if you leave.
      </UnsavedGuard>
      <TabViews
        label="Parts of the installation"
        tabs={tabs}
        selected={tab}
        onSelect={(next) => void navigate({ search: { tab: next }, replace: true, resetScroll: false })}
        views={views}
      />
    </>
  );
}
