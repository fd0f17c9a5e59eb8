/** An address that leads nowhere. */
import { Stack, Text, Title } from '@mantine/core';
import { PageLink } from './page-link.tsx';

export function NotFound() {
  return (
    <Stack gap="xs">
      <Title order={1}>There is no such page</Title>
      <Text>
        The address may be mistyped, or what was here is gone. <PageLink to="/catalog">Go to the catalog</PageLink>.
      </Text>
    </Stack>
  );
}
