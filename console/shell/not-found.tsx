/** The page for unknown addresses. */
import { Stack, Text, Title } from '@mantine/core';
import { PageLink } from './page-link.tsx';

export function NotFound() {
  return (
    <Stack gap="xs">
      <Title order={1}>Page not found</Title>
      <Text>
        Check the address. The page may have been removed. <PageLink to="/catalog">Go to the catalog</PageLink>.
      </Text>
    </Stack>
  );
}
