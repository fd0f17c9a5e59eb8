/** What the account has installed, in the order in which the hooks run. */
import { Skeleton, Stack, Title } from '@mantine/core';
import { useInstallations } from '../rest/installations.ts';
import { Nothing } from '../shell/nothing.tsx';
import { PageFailure } from '../shell/page-failure.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { HookOrder } from './hook-order.tsx';

export function InstallationsPage() {
  const found = useInstallations();
  return (
    <Stack>
      <Title order={1}>Installations</Title>
      {found.error ? <PageFailure error={found.error} reset={() => void found.refetch()} /> : null}
      {found.isPending ? <Skeleton height={160} aria-label="Loading" /> : null}
      {found.data?.items.length === 0 ? (
        <Nothing>
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
