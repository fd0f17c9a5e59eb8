/** What the account has installed, in the order in which the hooks run. */
import { Skeleton, Stack } from '@mantine/core';
import { IconPlug } from '@tabler/icons-react';
import { useInstallations } from '../rest/installations.ts';
import { Nothing } from '../shell/nothing.tsx';
import { PageFailure } from '../shell/page-failure.tsx';
import { PageHead } from '../shell/page-head.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { HookOrder } from './hook-order.tsx';

export function InstallationsPage() {
  const found = useInstallations();
  return (
    <Stack>
      <PageHead
        title="Installations"
        said="What runs for your agents. Hooks run from the top to the bottom, each on what the one above left."
      />
      {found.error ? <PageFailure error={found.error} reset={() => void found.refetch()} /> : null}
      {found.isPending ? <Skeleton height={160} aria-label="Loading" /> : null}
      {found.data?.items.length === 0 ? (
        <Nothing icon={IconPlug}>
          Nothing is installed yet.{' '}
          <PageLink to="/catalog" underline="always">
            Choose something from the catalog
          </PageLink>
          .
        </Nothing>
      ) : null}
      {found.data && found.data.items.length > 0 ? <HookOrder installations={found.data.items} /> : null}
    </Stack>
  );
}
