/** The page for unknown addresses. */
import { Stack, Text, Title } from '@mantine/core';
import { LeavePageButtons } from './leave-page-buttons.tsx';
import { usePageTitle } from './use-page-title.ts';

export function NotFound() {
  usePageTitle('Page not found');
  return (
    <Stack gap="xs" align="flex-start">
      <Title order={1}>Page not found</Title>
      <Text>No page has this address. Check it for typing errors; the page may also have been removed.</Text>
      <LeavePageButtons />
    </Stack>
  );
}
