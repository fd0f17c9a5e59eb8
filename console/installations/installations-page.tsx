/** Lists the installations of the account in the order of their hooks. */
import { Skeleton, Stack } from '@mantine/core';
import { useInstallations } from '../rest/installations.ts';
import { useReadError } from '../rest/use-read-error.ts';
import { EmptyState } from '../shell/empty-state.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { IconPlug } from '../style/icons.tsx';
import { HookOrder } from './hook-order.tsx';

export function InstallationsPage() {
  const found = useInstallations();
  const error = useReadError(found);
  return (
    <Stack>
      <PageHeader
        title="Installations"
        subtitle="Plugins that run for your agents. Hooks run from top to bottom, each on the result of the previous one."
      />
      {error ? <ErrorAlert error={error} reset={() => void found.refetch()} /> : null}
      {found.isPending && error === null ? <Skeleton height={160} aria-label="Loading" /> : null}
      {found.data?.length === 0 ? (
        <EmptyState icon={IconPlug}>
          Nothing is installed yet.{' '}
          <PageLink to="/catalog" underline="always">
            Choose a plugin from the catalog
          </PageLink>
          .
        </EmptyState>
      ) : null}
      {found.data && found.data.length > 0 ? <HookOrder installations={found.data} /> : null}
    </Stack>
  );
}
