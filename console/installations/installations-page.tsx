/** What the account has installed, in the order in which the hooks run. */
import { Skeleton, Stack } from '@mantine/core';
import { useInstallations } from '../rest/installations.ts';
import { EmptyState } from '../shell/empty-state.tsx';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { IconPlug } from '../style/icons.tsx';
import { HookOrder } from './hook-order.tsx';

export function InstallationsPage() {
  const found = useInstallations();
  return (
    <Stack>
      <PageHeader
        title="Installations"
        said="What runs for your agents. Hooks run from the top to the bottom, each on what the one above left."
      />
      {found.error ? <ErrorAlert error={found.error} reset={() => void found.refetch()} /> : null}
      {found.isPending ? <Skeleton height={160} aria-label="Loading" /> : null}
      {found.data?.items.length === 0 ? (
        <EmptyState icon={IconPlug}>
          Nothing is installed yet.{' '}
          <PageLink to="/catalog" underline="always">
            Choose something from the catalog
          </PageLink>
          .
        </EmptyState>
      ) : null}
      {found.data && found.data.items.length > 0 ? <HookOrder installations={found.data.items} /> : null}
    </Stack>
  );
}
