/** Where a list would be and is not: why, and what to do. */
import { Center, Stack, Text } from '@mantine/core';
import { IconMoodEmpty } from '@tabler/icons-react';
import type { ReactNode } from 'react';

export function Nothing({ children }: { readonly children: ReactNode }) {
  return (
    <Center className="nothing" p="xl">
      <Stack align="center" gap="xs">
        <IconMoodEmpty size={32} stroke={1.4} aria-hidden />
        <Text ta="center" maw={440}>
          {children}
        </Text>
      </Stack>
    </Center>
  );
}
